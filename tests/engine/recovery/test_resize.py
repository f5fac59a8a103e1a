"""Another number of partitions between two runs: Spark's resize, which adds a batch of its own."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import StateMismatch
from keyfold.testing import Driver, drive, shared_session

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> str:
    return (ZERO + timedelta(seconds=second)).isoformat()


def resize(d: Driver, to: int, *tables: str) -> None:
    """Stops the app, resizes the state of tables with Spark's own tool, and starts the app."""
    d.handle.stop()
    for table in tables:
        checkpoint = str(d.handle.home.table(table).checkpoint)
        shared_session()._streamingCheckpointManager.repartition(checkpoint, to)
    d.restart()


def exchanges(d: Driver, table: str) -> list[str]:
    """The shuffles of the table's last batch."""
    said = io.StringIO()
    with redirect_stdout(said):
        d.handle.queries[table].explain()
    return [
        line.partition("hashpartitioning")[2] for line in said.getvalue().splitlines() if "Exchange " in line
    ]


def counting(partitions: int | None = None) -> kf.App:
    app = kf.App("resized")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    rows.by("k").table("totals", n="count(*)", total="sum(x)", partitions=partitions)
    return app


def push(d: Driver, *keys: str) -> None:
    d.push("rows", [{"k": k, "x": 1} for k in keys])


def totals(d: Driver) -> dict[str, int]:
    assert all(row["n"] == row["total"] for row in d.rows("totals"))
    return {row["k"]: row["n"] for row in d.rows("totals")}


KEYS = "abcdefghij"


def test_a_restart_with_another_number_of_shuffle_partitions_keeps_the_number_of_the_state(
    tmp_path: Path,
) -> None:
    with drive(counting(), home=tmp_path) as d:
        push(d, *KEYS)
    for runs, other in ((2, "5"), (3, "1")):
        with drive(counting(), home=tmp_path, spark={"spark.sql.shuffle.partitions": other}) as d:
            push(d, *KEYS)
            (exchange,) = exchanges(d, "totals")
            assert ", 2)" in exchange
            assert totals(d) == dict.fromkeys(KEYS, runs)


def test_after_a_resize_rows_are_shuffled_once_to_the_new_number_of_partitions(tmp_path: Path) -> None:
    with drive(counting(), home=tmp_path) as d:
        push(d, *KEYS)
        resize(d, 5, "totals")
        push(d, *KEYS)
        (exchange,) = exchanges(d, "totals")
        assert ", 5)" in exchange
        assert totals(d) == dict.fromkeys(KEYS, 2)
        d.crash()
        push(d, "a")
        assert totals(d) == {**dict.fromkeys(KEYS, 2), "a": 3}
    # The declared number is compared with that of the state, not with what it was at first.
    with (
        pytest.raises(StateMismatch, match="partitions: 5 on disk, 2 now"),
        drive(counting(2), home=tmp_path),
    ):
        pass
    with drive(counting(5), home=tmp_path) as d:
        push(d, "a")
        assert totals(d)["a"] == 4


def kinds() -> kf.App:
    """Tables whose views can be rebuilt from state, and tables whose views can't."""
    app = kf.App("kinds")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, t timestamp", time="t", late="0 seconds")
    rows.by("k").table("sums", n="count(*)")
    rows.by("k").tumbling("10 seconds").table("windows", n="count(*)", emit="final")
    rows.by("k").top(2, by="x desc").table("top", x="x")
    two = kf.step("a", "x = 1") >> kf.step("b", "x = 2")
    rows.by("k").pattern("matches", two, within="1 minute", returns={"at": "b.t"})
    kf.Table(app, "sums").changes().by("n").table("sizes", keys="count(*)")
    return app


def shown(d: Driver) -> dict[str, list[tuple[Any, ...]]]:
    tables = ("sums", "windows", "top", "matches", "sizes")
    return {table: [tuple(row.values()) for row in d.rows(table)] for table in tables}


def rows_at(second: int, x: int) -> Iterator[dict[str, Any]]:
    return ({"k": k, "x": x, "t": at(second)} for k in "abcd")


def test_a_batch_without_a_hook_leaves_views_and_readers_as_they_are() -> None:
    """The resize is a batch of Spark's alone: views and readers know nothing of it, and have lost nothing."""
    with drive(kinds()) as clean, drive(kinds()) as d:
        for each in (clean, d):
            each.push("rows", list(rows_at(1, 1)))
            each.push("rows", list(rows_at(2, 2)))
            each.push("rows", list(rows_at(30, 1)))
            each.push("rows", list(rows_at(31, 3)))
        before = shown(d)
        assert before == shown(clean)
        assert len(before["windows"]) == len(before["matches"]) == 4
        resize(d, 3, "sums", "windows", "top", "matches", "sizes")
        assert shown(d) == before
        for each in (clean, d):
            each.push("rows", list(rows_at(32, 2)))
            each.push("rows", list(rows_at(60, 5)))
        assert shown(d) == shown(clean)
        d.crash()
        assert shown(d) == shown(clean)
