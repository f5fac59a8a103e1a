"""Widths of the columns of a status line, and which columns fit into a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from rich.cells import cell_len

GAP: Final = 2
"""Spaces between two columns."""
ABSENT: Final = "0"
"""What a row shows in a column that only other rows have."""

Rows = Collection[Mapping[str, str]]


def widths(columns: Iterable[str], rows: Rows) -> dict[str, int]:
    """The width of each column: of its name or of its longest cell."""
    return {c: max(cell_len(c), *(cell_len(row.get(c, ABSENT)) for row in rows)) for c in columns}


def line_width(columns: Sequence[str], rows: Rows) -> int:
    """The width of a line with all columns."""
    return sum(widths(columns, rows).values()) + GAP * (len(columns) - 1)


def fitting(columns: Sequence[str], rows: Rows, room: int, optional: Iterable[str]) -> tuple[str, ...]:
    """The columns that are left when optional ones are dropped, in order, until a line fits."""
    left = tuple(columns)
    for column in optional:
        if line_width(left, rows) <= room:
            break
        left = tuple(c for c in left if c != column)
    return left
