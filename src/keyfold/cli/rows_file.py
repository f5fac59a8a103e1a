"""The rows of a file that a command is given, and what is odd about them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from keyfold.errors import BadOption
from keyfold.plan import nodes
from keyfold.plan.ddl import columns

_FORM: Final = "an array of objects, or an object a line"


def rows_of(file: str) -> list[Any]:
    """The rows of a file: an array of them, or one a line."""
    try:
        text = Path(file).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"the rows can't be read: {error}", given=file) from None
    if text.lstrip().startswith("["):
        found = _parsed(text, file)
    else:
        # Not splitlines(): a string of JSON may hold what Unicode calls the end of a line.
        lines = enumerate((line.strip() for line in text.split("\n")), 1)
        found = [_parsed(line, f"{file}, line {number}") for number, line in lines if line]
    if not found:
        raise BadOption("there are no rows", given=file, hint=_FORM)
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise BadOption(f"row {number} is no object", given=f"{row!r} in {file}", hint=_FORM)
    return list(found)


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadOption(f"the rows are no JSON: {error}", given=place, hint=_FORM) from None


def unknown(rows: Iterable[dict[str, Any]], stream: nodes.Source) -> list[str]:
    """Fields that the stream has no column for, perhaps a name that was mistyped."""
    if stream.schema is None:
        return []
    known = {name.lower() for name in columns(stream.schema)}
    return list(dict.fromkeys(field for row in rows for field in row if field.lower() not in known))
