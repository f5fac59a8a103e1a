"""Sparklines of one key's windows, a line for each numeric column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keyfold.cli import formatting, output

if TYPE_CHECKING:
    from keyfold.views.contract import ViewSchema


class Trend:
    """Collects rows while they are printed, then draws their columns by window start."""

    def __init__(self, schema: ViewSchema) -> None:
        self._columns = [column.name for column in schema.columns if column.numeric]
        self._start = schema.keys[-2].name
        self._points: list[tuple[datetime, list[float | None]]] = []

    def watch(self, rows: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Passes rows on and keeps their numbers."""
        for row in rows:
            at = row[self._start]
            # A timestamp outside Python's years is text, and can't be ordered with the others.
            if isinstance(at, datetime):
                self._points.append((at, [_number(row[name]) for name in self._columns]))
            yield row

    def lines(self, width: int, encoding: str = "utf-8") -> list[str]:
        """A line for each column, of at most `width` characters; none for a single window."""
        points = [values for _, values in sorted(self._points, key=lambda point: point[0])]
        if len(points) < 2:
            return []
        names = [output.cell(name) for name in self._columns]
        room = max((len(name) for name in names), default=0)
        drawn = zip(names, zip(*points, strict=True), strict=True)
        return [_line(f"{name:<{room}}", values, width, encoding) for name, values in drawn]


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None


def _line(name: str, values: Sequence[float | None], width: int, encoding: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return f"{name}  no numbers"
    span = f"{min(known):,.6g} to {max(known):,.6g}"
    newest = values[-max(8, width - len(name) - len(span) - 4) :]
    low = min((value for value in newest if value is not None), default=0.0)
    bars = formatting.sparkline([low if v is None else v for v in newest], len(newest), encoding, low)
    gaps = "".join(" " if value is None else bar for value, bar in zip(newest, bars, strict=True))
    return f"{name}  {gaps}  {span}"
