"""Aggregates of Parquet files whose keys are in dictionaries, in each layout that a writer may choose."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm

AT = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 12_000
TABLES = ("by_key", "by_number", "by_both", "with_ttl", "by_hour", "dividing")
LAYOUTS: dict[str, dict[str, Any]] = {
    "one dictionary": {},
    "a dictionary for each row group": {"row_group_size": 1_000},
    "a dictionary that is given up half way": {"dictionary_pagesize_limit": 512, "data_page_size": 1_024},
    "no dictionary": {"use_dictionary": False},
    "rows that Spark makes": {},
}


def rows() -> pa.Table:
    keys = [None if n % 997 == 0 else f"key-{n * n % 331}" for n in range(ROWS)]
    # One time that no clock shows: the row is rejected.
    times = [AT + timedelta(seconds=n) for n in range(ROWS - 1)] + [datetime(1960, 1, 1, tzinfo=UTC)]
    return pa.table(
        {
            "key": keys,
            "number": pa.array([n * n % 331 for n in range(ROWS)], pa.int64()),
            "amount": pa.array(range(ROWS), pa.int64()),
            "at": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_totals_do_not_depend_on_how_keys_are_laid_out_in_files(layout: str, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    written = rows()
    for number in range(2):
        pq.write_table(
            written.slice(number * ROWS // 2, ROWS // 2), inbox / f"{number}.parquet", **LAYOUTS[layout]
        )
    app = kf.App("shop")
    source = kf.files(str(inbox), format="parquet")
    stream = app.stream(
        "sales", source, schema="key string, number bigint, amount bigint, at timestamp", time="at"
    )
    few = stream.where("amount % 3 = 0")
    stream.by("key").table("by_key", n="count(*)", total="sum(amount)")
    few.by("number").table("by_number", n="count(*)", total="sum(amount)", mean="avg(amount)")
    stream.by("key", odd="number % 2").table("by_both", n="count(*)", most="max(amount)")
    stream.by("key").table("with_ttl", n="count(*)", total="sum(amount)", ttl="30 days")
    stream.by("key").tumbling("1 hour").table("by_hour", n="count(*)", total="sum(amount)")
    stream.by("number").table("dividing", n="count(*)", total="sum(amount)", part="sum(1 / (amount % 1000))")
    columns = str(layout != "rows that Spark makes").lower()
    settings = {"spark": {"spark.sql.parquet.enableVectorizedReader": columns}}
    handle = start.start(app.spec(), spark=shared_session(), home=tmp_path / "home", settings=settings)
    try:
        handle.drain()
        found = {name: {tuple(row.values())[:-2] for row in handle.table(name).rows()} for name in TABLES}
        reasons = Counter(row["reason"] for row in handle.rejected("by_key"))
        divided = Counter(row["reason"].partition(" in: ")[0] for row in handle.rejected("dividing"))
        progress = handle.queries["with_ttl"].recentProgress
        # Those that wait for event time end with a batch that has no rows.
        made = [rows_made_by_spark(handle.queries[name]) for name in TABLES[:3]]
    finally:
        handle.stop()
    good = written.slice(0, ROWS - 1).to_pylist()
    assert found["by_key"] == folded([r for r in good if r["key"]], lambda r: (r["key"],))
    assert found["with_ttl"] == found["by_key"]
    hours = folded([r for r in good if r["key"]], lambda r: (r["key"], hour(r["at"]), hour(r["at"], 1)))
    assert found["by_hour"] == hours
    by_number = folded([r for r in good if r["amount"] % 3 == 0], lambda r: (r["number"],))
    assert found["by_number"] == {(*row, row[-1] / row[-2]) for row in by_number}
    dividing = folded([r for r in good if r["amount"] % 1000], lambda r: (r["number"],))
    assert {row[:3] for row in found["dividing"]} == dividing, "a row that can't be divided is in no column"
    assert divided["[DIVIDE_BY_ZERO] Division by zero."] == ROWS // 1000
    most: dict[Any, int] = {}
    for row in (r for r in good if r["key"]):
        most[row["key"], row["number"] % 2] = row["amount"]
    assert {(*row[:2], row[3]) for row in found["by_both"]} == {(*k, v) for k, v in most.items()}
    assert reasons["key key is null"] == sum(1 for n in range(ROWS - 1) if n % 997 == 0)
    assert sum(reasons.values()) == reasons["key key is null"] + 1
    assert sum(p["numInputRows"] for p in progress) == ROWS
    assert set(made) == {None if columns == "false" else 0}, "rows are positions in columns"
    assert [p["eventTime"]["max"] for p in progress if p["numInputRows"]] == ["2026-01-01T03:19:58.000Z"]


def rows_made_by_spark(query: Any) -> int | None:
    """How many rows the plan of the last batch made of columns; None if it reads no columns."""
    plans = [query._jsq.streamingQuery().lastExecution().executedPlan()]
    while plans:
        plan = plans.pop()
        if plan.nodeName() == "ColumnarToRow":
            return int(plan.metrics().apply("numOutputRows").value())
        children = plan.children()
        plans += [children.apply(n) for n in range(children.length())]
    return None


def hour(at: datetime, more: int = 0) -> datetime:
    return at.replace(minute=0, second=0) + timedelta(hours=more)


def folded(good: list[dict[str, Any]], key: Any) -> set[tuple[Any, ...]]:
    """Key, count and sum."""
    counts: Counter[Any] = Counter(map(key, good))
    sums: Counter[Any] = Counter()
    for row in good:
        sums[key(row)] += row["amount"]
    return {(*k, n, sums[k]) for k, n in counts.items()}
