"""Parquet by the columns that tables look at."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def test_parquet_is_read_by_the_columns_that_tables_look_at(tmp_path: Path) -> None:
    """Event time counts though no expression names it; a column that no table reads may be of any type."""
    for day, hour in ((1, 0), (2, 5)):
        place = tmp_path / "in" / f"day={day}"
        place.mkdir(parents=True)
        moment = datetime(2026, 1, 1, hour, tzinfo=UTC)
        columns = {
            "k": ["a" if day == 1 else "b", None],
            "x": ["1", "2"],
            "at": pa.array([moment] * 2, pa.timestamp("us", "UTC")),
            "unread": ["text", "text"] if day == 1 else [1.5, 2.5],
        }
        pq.write_table(pa.table(columns), place / "rows.parquet")
    app = kf.App("columns")
    schema = "unread int, k string, x string, at timestamp, day int"
    rows = app.stream("rows", kf.files(tmp_path / "in", format="parquet"), schema=schema, time="at")
    rows.by("k", "day").table("kept", total="sum(cast(x as int))", ttl="2 hours")
    rows.by("day").table("days", n="count(*)", last=kf.fold(zero={"x": "''"}, update={"x": "x"}))
    with start.start(app.spec(), spark=shared_session(), home=tmp_path / "home") as handle:
        handle.drain()
        found = [(r["k"], r["day"], r["total"]) for r in handle.table("kept").rows()]
        assert found == [("b", 2, 1)], (
            "the key of the first day is older than the second by more than its lifetime"
        )
        assert [(r["day"], r["n"], r["last"]) for r in handle.table("days").rows()] == [
            (1, 2, "2"),
            (2, 2, "2"),
        ]
        assert sorted(r["raw"] for r in handle.rejected("rows")) == [
            '{"k":null,"x":"2","day":1}',
            '{"k":null,"x":"2","day":2}',
        ]
