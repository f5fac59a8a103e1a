"""The state of a join as Spark's `statestore` source reads it."""

from __future__ import annotations

from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

SCHEMA = "k string, v string, t timestamp"


def buffered(d: Driver, table: str, side: str) -> list[tuple[str, str]]:
    """Key and value of the rows that a side of the join keeps; the table itself is operator 0."""
    source = d.handle.spark.read.format("statestore").option("operatorId", 1).option("joinSide", side)
    found = source.load(str(d.handle.home.table(table).checkpoint)).select("value.k", "value.v").collect()
    return sorted(map(tuple, found))


def test_sparks_reader_of_state_reads_the_rows_that_both_sides_keep() -> None:
    app = kf.App("joined")
    left, right = (app.stream(n, kf.rows([]), schema=SCHEMA, time="t", late="1 hour") for n in ("l", "r"))
    pairs = left.join(right, on="k", within="1 minute", how="full")
    pairs.by("k").table("pairs", n="count(*)")
    with drive(app) as d:

        def push(stream: str, *rows: tuple[str, str]) -> None:
            given: list[dict[str, Any]] = [{"k": k, "v": v, "t": "2026-01-01T00:00:00Z"} for k, v in rows]
            d.push(stream, given)

        push("l", ("a", "l1"), ("a", "l2"), ("b", "l3"))
        push("r", ("a", "r1"), ("c", "r2"))
        for _ in range(2):
            assert buffered(d, "pairs", "left") == [("a", "l1"), ("a", "l2"), ("b", "l3")]
            assert buffered(d, "pairs", "right") == [("a", "r1"), ("c", "r2")]
            d.crash()
        assert [(row["k"], row["n"]) for row in d.rows("pairs")] == [("a", 2)]
