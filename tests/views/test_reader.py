"""`TableReader`, and the store that keeps nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.errors import QueryError
from keyfold.views.contract import Column, ViewSchema, ViewStore
from keyfold.views.none import NoViews
from keyfold.views.reader import TableReader
from keyfold.views.stores import views_in
from keyfold.views.types.parse import parse

AT = datetime(2026, 1, 1, tzinfo=UTC)
POINT = {"type": "struct", "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "long"}]}


def schema(table: str, keys: dict[str, Any], others: dict[str, Any]) -> ViewSchema:
    first, rest = (
        tuple(Column(name, parse(kind)) for name, kind in group.items()) for group in (keys, others)
    )
    return ViewSchema(table, first, rest)


TOTALS = schema(
    "totals", {"region": "string"}, {"n": "long", "ok": "boolean", "x": "double", "seen": "timestamp"}
)
PAIRS = schema("pairs", {"region": "string", "day": "date"}, {"n": "long"})
POINTS = schema("points", {"point": POINT}, {"n": "long"})


def fill(store: ViewStore, schema: ViewSchema, **columns: list[Any]) -> None:
    store.create(schema)
    ops = ["upsert"] * len(next(iter(columns.values())))
    with store.batch(schema.table, 4, AT) as writer:
        writer.apply(pa.RecordBatch.from_pydict({"_op": ops, **columns}, schema=schema.arrow))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ViewStore]:
    store = views_in(tmp_path / "views.db").open(read_only=False)
    fill(
        store,
        TOTALS,
        region=["eu", "us"],
        n=[2**62 + 1, None],
        ok=[True, None],
        x=[1.5, None],
        seen=[AT, None],
    )
    fill(store, PAIRS, region=["eu"], day=[AT.date()], n=[1])
    fill(store, POINTS, point=[{"x": 1, "y": 2}], n=[1])
    yield store
    store.close()


def test_get_by_place_by_name_and_by_dict(store: ViewStore) -> None:
    totals, pairs, points = (TableReader(store, name) for name in ("totals", "pairs", "points"))
    row = totals.get("eu")
    assert row == totals.get(region="eu") == totals.get({"REGION": "eu"})
    assert row is not None
    assert list(row) == ["region", "n", "ok", "x", "seen", "_batch", "_at"]
    assert totals.get("xx") is None
    found = pairs.get("eu", "2026-01-01")
    assert found == pairs.get(region="eu", day=AT.date()) == pairs.get(("eu", "2026-01-01"))
    assert found is not None
    point = points.get({"x": 1, "y": 2})
    assert point == points.get('{"y": 2, "x": 1}') == points.get(point={"x": 1, "y": 2})
    assert point is not None
    assert point["point"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("key", "named", "says"),
    [
        (("eu",), {}, "region, day"),
        (("eu", "2026-01-01", 3), {}, "the key has 2 parts, 3 given"),
        ((), {}, "0 given"),
        (("eu", "soon"), {}, "a date is written"),
        ((), {"region": "eu"}, "the key is missing day"),
        ((), {"regio": "eu", "day": "2026-01-01"}, "did you mean 'region'"),
        (("eu",), {"day": "2026-01-01"}, "both by position and by name"),
    ],
)
def test_a_key_that_does_not_fit_names_the_key_columns(
    store: ViewStore, key: tuple[Any, ...], named: dict[str, Any], says: str
) -> None:
    with pytest.raises(QueryError) as caught:
        TableReader(store, "pairs").get(*key, **named)
    assert says in str(caught.value)
    assert caught.value.reason == "bad_request"


def test_rows_take_filter_order_and_limit(store: ViewStore) -> None:
    totals = TableReader(store, "totals")
    assert [row["region"] for row in totals.rows(order_by="region desc")] == ["us", "eu"]
    assert [row["region"] for row in totals.rows("ok", limit=5)] == ["eu"]
    assert [row["region"] for row in totals.rows({"n": None})] == ["us"]


def test_a_scan_reads_the_same_rows_one_by_one_and_goes_on_behind_a_page(store: ViewStore) -> None:
    totals = TableReader(store, "totals")
    assert list(totals.scan(order_by="region desc", limit=1)) == totals.rows(order_by="region desc", limit=1)
    page = totals.page(limit=1)
    assert [row["region"] for row in totals.scan(cursor=page.next)] == ["us"]
    with pytest.raises(QueryError, match="was made for another order"):
        totals.scan(cursor=page.next, order_by="n")
    with pytest.raises(QueryError, match="behind batch 5"):
        totals.scan(at_least=5)


def test_several_keys_are_given_as_one_is(store: ViewStore) -> None:
    totals = TableReader(store, "totals")
    eu = totals.get("eu")
    assert totals.get_many(["eu", ("eu",), {"region": "eu"}, "none"]) == [eu, eu, eu, None]
    with pytest.raises(QueryError, match="is not a key column"):
        totals.get_many([{"place": "eu"}])
    with pytest.raises(QueryError, match="behind batch 5"):
        totals.get_many(["eu"], at_least=5)


def test_pandas_keeps_big_integers_and_types_beside_nulls(store: ViewStore) -> None:
    frame = TableReader(store, "totals").pandas()
    assert frame["n"].tolist()[0] == 2**62 + 1
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {
        "region": "object",
        "n": "Int64",
        "ok": "boolean",
        "x": "float64",
        "seen": "datetime64[us, UTC]",
        "_batch": "int64",
        "_at": "datetime64[us, UTC]",
    }
    empty = TableReader(store, "totals").pandas("n = 5")
    assert list(empty.columns) == list(frame.columns)
    assert len(empty) == 0


def test_at_least_answers_or_refuses(store: ViewStore) -> None:
    totals = TableReader(store, "totals")
    assert totals.get("eu", at_least=4) is not None
    for read in (totals.rows, totals.pandas, lambda **bound: totals.get("eu", **bound)):
        with pytest.raises(QueryError, match="is at batch 4, behind batch 5") as caught:
            read(at_least=5)
        assert caught.value.reason == "behind_bound"
        assert caught.value.status == 409
    for wait in (0.01, "10 ms"):
        with pytest.raises(QueryError, match=r"after 0\.01 s"):
            totals.get("eu", at_least=5, wait=wait)


@pytest.mark.parametrize(
    "bad", [{"at_least": "x"}, {"at_least": 1, "wait": "soon"}, {"at_least": 1, "wait": -1}]
)
def test_bounds_that_cannot_be_read_are_refused(store: ViewStore, bad: dict[str, Any]) -> None:
    with pytest.raises(QueryError) as caught:
        TableReader(store, "totals").rows(**bad)
    assert caught.value.reason == "bad_request"


def test_an_unknown_table_is_said_at_once(store: ViewStore) -> None:
    reader = TableReader(store, "total")
    for read in (
        reader.rows,
        lambda: reader.get("eu"),
        lambda: reader.rows(at_least=3, wait="1 hour"),
        lambda: reader.schema,
    ):
        with pytest.raises(QueryError, match="did you mean 'totals'") as caught:
            read()
        assert caught.value.reason == "not_found"
    assert reader.position() is None


def test_position_and_schema(store: ViewStore) -> None:
    reader = TableReader(store, "totals")
    position = reader.position()
    assert position is not None
    assert (position.batch, position.at, position.watermark) == (4, AT, None)
    assert reader.schema == TOTALS


def test_no_views_takes_batches_and_refuses_reads() -> None:
    store = NoViews()
    store.create(TOTALS)
    for _ in range(2):
        with store.batch("totals", 0, AT) as writer:
            writer.apply(pa.RecordBatch.from_pylist([], schema=TOTALS.arrow))
        assert not writer.replayed
    store.rebuild("totals", TOTALS, [], 1, AT)
    store.drop("totals")
    assert store.position("totals") is None
    assert store.tables() == ()
    reader = TableReader(store, "totals")
    for read in (
        reader.rows,
        lambda: reader.get("eu"),
        lambda: reader.schema,
        lambda: reader.rows(at_least=1),
    ):
        with pytest.raises(QueryError, match="turned off") as caught:
            read()
        assert caught.value.reason == "not_ready"
    store.close()


def test_a_schema_is_made_from_sparks_json() -> None:
    fields = '{"name":"region","type":"string","nullable":true,"metadata":{}},{"name":"n","type":"long"}'
    made = ViewSchema.from_spark("t", 1, f'{{"type":"struct","fields":[{fields}]}}', "help")
    assert made == ViewSchema(
        "t", (Column("region", parse("string")),), (Column("n", parse("long")),), "help"
    )


def test_reading_loads_neither_spark_nor_pandas() -> None:
    code = "import sys, keyfold.views.reader; print({'pyspark', 'pandas', 'py4j'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
