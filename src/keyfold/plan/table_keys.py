"""The key columns of a table: the declared key, and those that windows, ranks and matches add."""

from __future__ import annotations

from typing import Final

from keyfold.plan.nodes import TableSpec, WindowSpec

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
    bounds = BOUNDS if closes(table.window) else ()
    rank = () if table.top is None or table.top.order is None else (RANK,)
    appended = (SEQ,) if table.process is not None and table.process.mode == "append" else ()
    match = () if table.pattern is None else (MATCH_ID,)
    return (*(name for name, _ in table.keys), *bounds, *rank, *appended, *match)
