"""The key columns of a table: the declared key, and those that windows, ranks and matches add."""

from __future__ import annotations

from typing import Final

from keyfold.plan.nodes import AggregateSpec, Body, ProcessSpec, TableSpec, TopSpec, WindowSpec
from keyfold.plan.pattern.syntax import PatternSpec

CLOSING: Final = ("tumbling", "sliding", "session")
"""Kinds of windows that close. Their tables have a row per key and window."""

BOUNDS: Final = ("window_start", "window_end")
"""The last key columns of such a table."""
RANK: Final = "rank"
"""The last key column of a top-N table, counted from 1."""
SEQ: Final = "seq"
"""The last key column of a processor's table in append mode."""
MATCH_ID: Final = "match_id"
"""The last key column of a pattern's table."""


def closes(window: WindowSpec | None) -> bool:
    """Whether the windows close, as tumbling, sliding and session windows do."""
    return window is not None and window.kind in CLOSING


def key_names(table: TableSpec) -> tuple[str, ...]:
    """The columns that identify a row of a table."""
    return (*(name for name, _ in table.keys), *_added_keys(table.body))


def _added_keys(body: Body) -> tuple[str, ...]:
    match body:
        case AggregateSpec():
            return BOUNDS if closes(body.window) else ()
        case TopSpec():
            return () if body.order is None else (RANK,)
        case ProcessSpec():
            return (SEQ,) if body.mode == "append" else ()
        case PatternSpec():
            return (MATCH_ID,)
