"""Reads the rows of a JSON file that is given to a command, and checks them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from keyfold.errors import BadOption
from keyfold.plan import nodes
from keyfold.plan.validate.known_columns import of_source

_FORM: Final = "an array of objects, or one object per line"


def rows_of(file: str) -> list[Any]:
    """The rows of a file: an array, or one per line."""
    try:
        text = Path(file).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"cannot read the rows: {error}", given=file) from None
    if text.lstrip().startswith("["):
        found = _parse(text, file)
    else:
        # Not splitlines(): a JSON string may contain Unicode line separators.
        lines = enumerate((line.strip() for line in text.split("\n")), 1)
        found = [_parse(line, f"{file}, line {number}") for number, line in lines if line]
    if not found:
        raise BadOption("the file has no rows", given=file, hint=_FORM)
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise BadOption(f"row {number} is not an object", given=f"{row!r} in {file}", hint=_FORM)
    return list(found)


def _parse(text: str, home: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadOption(f"the rows are not JSON: {error}", given=home, hint=_FORM) from None


def split(rows: Sequence[Mapping[str, Any]], stream: nodes.Source) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows with the stream's columns alone, and the names of other fields, perhaps misspelled ones."""
    columns = of_source(stream)
    fields = dict.fromkeys(field for row in rows for field in row)
    others = {} if columns is None else {field: None for field in fields if field not in columns}
    known = [{field: value for field, value in row.items() if field not in others} for row in rows]
    return known, list(others)
