"""A table as HTML, for notebooks: its first rows and its position.

Styles are inline and set no colours: notebooks drop style sheets of untrusted output, and may be light or
dark. Text is escaped, and characters that would break a line or change its direction are shown as escapes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, Final

from keyfold.errors import KeyfoldError
from keyfold.views.contract import Position, ViewStore
from keyfold.views.schema import Column

ROWS: Final = 20
_LONGEST: Final = 200
_TRIES: Final = 3
# Control characters, direction marks, line separators, lone surrogates.
_HARMFUL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_DIM: Final = "opacity:.55"
_LINE: Final = "1px solid rgba(128,128,128,.35)"
# Keeps MathJax from reading a "$" in a value as the start of a formula.
_FRAME: Final = '<div class="tex2jax_ignore mathjax_ignore" style="overflow-x:auto;line-height:1.4">{}</div>'

Shown = tuple[Position | None, Sequence[Mapping[str, Any]], int | None]


def table(store: ViewStore, name: str) -> str:
    """The first rows of a view in key order, or why there are none."""
    try:
        schema = store.schema(name)
        columns = (*schema.keys, *schema.columns)
        position, rows, count = _read(store, name, columns)
    except KeyfoldError as error:
        message = f"{error.what}; {error.hint}" if error.hint else error.what
        return _FRAME.format(_title(name, message))
    if position is None:
        return _FRAME.format(_title(name, "no batch yet"))
    summary = f"batch {position.batch}, {_timestamp(position.at, 'seconds')}, {_amount(len(rows), count)}"
    return _FRAME.format(_title(name, summary) + _grid(columns, rows[:ROWS]))


def text(value: Any) -> str:
    """A value as one line, cut to the length of a cell."""
    return _line(_word(value))


def _read(store: ViewStore, name: str, columns: Iterable[Column]) -> Shown:
    """Rows with their position: reads again, a few times, if a batch was committed in between."""
    names = [column.name for column in columns]
    for _ in range(_TRIES):
        before = store.position(name)
        # One row more than shown tells whether there are more; only then are they counted.
        rows = list(store.scan(name, limit=ROWS + 1, columns=names))
        count = store.count(name) if len(rows) > ROWS else len(rows)
        position = store.position(name)
        if position == before:
            break
    return position, rows, count


def _amount(read: int, count: int | None) -> str:
    if read <= ROWS:
        return f"{read} row{'' if read == 1 else 's'}"
    return f"the first {ROWS} rows" if count is None else f"{ROWS} of {count:,} rows"


def _title(name: str, summary: str) -> str:
    return f'<div><b>{_safe(name)}</b> <span style="{_DIM}">{_safe(summary)}</span></div>'


def _grid(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> str:
    sides = {column.name: "right" if column.numeric else "left" for column in columns}
    head = "".join(_cell("th", name, side, f"border-bottom:{_LINE}") for name, side in sides.items())
    body = "".join(
        f"<tr>{''.join(_value(row[name], side) for name, side in sides.items())}</tr>" for row in rows
    )
    style = "border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _value(value: Any, side: str) -> str:
    return _cell("td", "null", side, _DIM) if value is None else _cell("td", text(value), side)


def _cell(tag: str, text: str, side: str, more: str = "") -> str:
    style = f"text-align:{side};padding:.15em .7em;white-space:pre;{more}".rstrip(";")
    return f'<{tag} style="{style}">{_safe(text)}</{tag}>'


def _safe(text: str) -> str:
    return html.escape(_line(text))


def _line(text: str) -> str:
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return _HARMFUL.sub(lambda found: repr(found[0])[1:-1], cut)


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value as JSON represents it."""
    if isinstance(value, float):
        return _number(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {_word(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, datetime):
        return _timestamp(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.hex() if isinstance(value, bytes) else str(value)


def _number(value: float) -> float | str:
    # A double holds 15 digits of any decimal number: 0.1 + 0.2 is shown as 0.3.
    if isfinite(value):
        return float(f"{value:.15g}")
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _timestamp(value: datetime, to: str = "auto") -> str:
    if value.tzinfo is None:
        return value.isoformat(" ", to)
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ', to)} UTC"
