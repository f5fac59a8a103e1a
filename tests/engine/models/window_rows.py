"""Rows by hand for tests of windows: times in seconds, views and changes as tuples."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import keyfold as kf
from keyfold.testing import Driver

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SCHEMA = "k string, x bigint, t timestamp"
KINDS: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda keyed: keyed.tumbling("10 seconds"),
    "sliding": lambda keyed: keyed.sliding("10 seconds", every="5 seconds"),
    "session": lambda keyed: keyed.session("10 seconds"),
    "rolling": lambda keyed: keyed.rolling("10 seconds"),
    "panes": lambda keyed: keyed.rolling("10 seconds", every="5 seconds"),
    "last": lambda keyed: keyed.last(5),
}


def app_of(late: str | int = 0, schema: str = SCHEMA, **options: Any) -> tuple[kf.App, Any]:
    app = kf.App("windows")
    return app, app.stream("rows", kf.rows([]), schema=schema, time="t", late=late, **options)


def push(d: Driver, *found: tuple[Any, ...]) -> None:
    """Rows (key, time in seconds[, x]) as one batch."""
    d.push("rows", [{"k": k, "t": ZERO + t * SECOND, "x": x[0] if x else 1} for k, t, *x in found])


def shown(row: dict[str, Any], *columns: str) -> tuple[Any, ...]:
    op = (row["_op"],) if "_op" in row else ()
    bounds = [(row[b] - ZERO) / SECOND for b in ("window_start", "window_end")]
    return *op, row["k"], *bounds, *(row[c] for c in columns)


def view(d: Driver, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [shown(r, *(columns or ("n",))) for r in d.rows(table)]


def changes(d: Driver, table: str) -> list[tuple[Any, ...]]:
    return [shown(c, *(("n",) if c["_op"] != "delete" else ())) for c in d.changes(table)]
