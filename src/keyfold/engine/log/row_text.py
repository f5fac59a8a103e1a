"""Whether the text of a row that was not folded has a key, value by value, read like the row's stream."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from keyfold.engine.log.key_text import is_value
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import KeyfoldError
from keyfold.plan import ddl

Found = Literal["column", "word"]
"""How a key was found: in columns, or as words of a text without columns, which may belong to other keys."""

_NUMBERS: Final = re.compile(
    r"(tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|decimal|dec|numeric)\b",
    re.IGNORECASE,
)
_ENDS: Final = r"[^\s,;|=:\"'{}\[\]()]"
"""Characters that don't end a word: `7` is neither in `7.5` nor in `a-7`."""


@dataclass(frozen=True)
class StreamText:
    """The form of a stream's rows as text: its columns with their types, and the delimiter of CSV."""

    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def match(self, text: str | None, key: Mapping[str, str]) -> Found | None:
        """How a text has these values: all of them by column, each as a whole value."""
        if text is None:
            return None
        try:
            row = json.loads(text)
        except ValueError:
            row = None
        if isinstance(row, dict):
            return self._in_object(row, key)
        if self.format == "csv":
            found = [self._in_fields(fields, key) for fields in self._lines(text)]
            return "column" if "column" in found else "word" if "word" in found else None
        if self.format == "json":
            return self._in_cut_json(text, key)
        return "word" if all(_has_word(text, value) for value in key.values()) else None

    def _in_object(self, row: Mapping[str, Any], key: Mapping[str, str]) -> Found | None:
        given = {str(name).lower(): value for name, value in row.items()}
        if self._has_columns(given, key) or self._has_columns(self.columns, key):
            same = (self._is(name, given.get(name.lower()), value) for name, value in key.items())
            return "column" if all(same) else None
        # The stream has the key's columns under other names.
        values = list(_leaves(row))
        found = all(any(is_value(one, value) for one in values) for value in key.values())
        return "word" if found else None

    def _in_fields(self, fields: list[str], key: Mapping[str, str]) -> Found | None:
        if len(fields) == len(self.columns) and self._has_columns(self.columns, key):
            row = dict(zip((name.lower() for name in self.columns), fields, strict=True))
            same = (self._is(name, row[name.lower()], value) for name, value in key.items())
            return "column" if all(same) else None
        # With too many values, or too few, the columns are ambiguous.
        found = all(any(one.strip() == value for one in fields) for value in key.values())
        return "word" if found else None

    def _in_cut_json(self, text: str, key: Mapping[str, str]) -> Found | None:
        how: list[Found] = []
        for name, value in key.items():
            after = rf'"{re.escape(name)}"\s*:\s*(?:"((?:[^"\\]|\\.)*)(?:"|$)|([^\s,}}\]"]+))'
            given = re.findall(after, text, re.IGNORECASE)
            same = [self._is(name, _unescape(one) or other, value) for one, other in given]
            if not (any(same) if given else _has_word(text, value) or _has_word(text, _escape(value))):
                return None
            how.append("column" if given else "word")
        return "word" if "word" in how else "column"

    @staticmethod
    def _has_columns(columns: Iterable[str], key: Mapping[str, str]) -> bool:
        return {name.lower() for name in key} <= {name.lower() for name in columns}

    def _is(self, column: str, value: Any, wanted: str) -> bool:
        """Whether a value is the wanted one; the text of a number may have leading or trailing zeros."""
        kind = next((kind for name, kind in self.columns.items() if name.lower() == column.lower()), "")
        if isinstance(value, str) and _is_number(kind):
            return is_value(_number(value), wanted) or value == wanted
        return is_value(value, wanted)

    def _lines(self, text: str) -> Iterator[list[str]]:
        separator = self.options.get("sep") or self.options.get("delimiter") or ","
        separator = "\t" if separator == r"\t" else separator
        quote = self.options.get("quote", '"')
        if len(separator) != 1 or len(quote) > 1:
            yield from (line.split(separator) for line in text.splitlines())
            return
        form: dict[str, Any] = {"delimiter": separator, "escapechar": self.options.get("escape") or "\\"}
        form |= {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        try:
            yield from csv.reader(text.splitlines(), **form)
        except csv.Error:
            yield from (line.split(separator) for line in text.splitlines())


@dataclass(frozen=True)
class Texts:
    """The forms of the rows of a log: by stream, and for rows that do not name their stream."""

    streams: Mapping[str, StreamText] = field(default_factory=dict)
    default: str | None = None

    def match(self, text: str | None, stream: str | None, key: Mapping[str, str]) -> Found | None:
        """How a text of a stream has these values by column."""
        return self.streams.get(str(stream or self.default).lower(), StreamText()).match(text, key)


def of_plan(plan: StoredApp) -> dict[str, StreamText]:
    """The forms of the streams that an app's definitions declare, by lower-case name."""
    found = {}
    for name, one in plan.declared_streams.items():
        source = one.get("source") or {}
        options = {str(name).lower(): str(value) for name, value in (source.get("options") or {}).items()}
        try:
            columns = ddl.columns(one["schema"]) if one.get("schema") else {}
        except KeyfoldError:
            columns = {}
        found[name.lower()] = StreamText(source.get("format"), columns, options)
    return found


def _unescape(text: str) -> str:
    """The value of a JSON string; the text itself if it was cut within an escape."""
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _escape(value: str) -> str:
    return json.dumps(value)[1:-1]


def _has_word(text: str, value: str) -> bool:
    return re.search(rf"(?<!{_ENDS}){re.escape(value)}(?!{_ENDS})", text) is not None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _is_number(kind: str) -> bool:
    return _NUMBERS.match(kind.strip()) is not None


def _number(text: str) -> Any:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return text
