"""Reads of rows by key and by a range of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.errors import QueryError
from keyfold.views import keys
from keyfold.views.contract import Column, ViewSchema, ViewStore
from keyfold.views.reader import TableReader
from keyfold.views.sqlite import catalog, sql
from keyfold.views.sqlite.store import SqliteStore
from keyfold.views.stores import views_in
from keyfold.views.types.parse import parse

AT = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def columns(**types: Any) -> tuple[Column, ...]:
    return tuple(Column(name, parse(kind)) for name, kind in types.items())


WINDOW = {"window_start": "timestamp", "window_end": "timestamp"}
HOURLY = ViewSchema("hourly", columns(region="string", shop="long", **WINDOW), columns(n="long"))
TAGGED = ViewSchema(
    "tagged",
    columns(tags={"type": "array", "elementType": "string", "containsNull": True}, **WINDOW),
    columns(n="long"),
)
TOTALS = ViewSchema("totals", columns(region="string", shop="long"), columns(n="long"))


def fill(store: ViewStore, schema: ViewSchema, *rows: tuple[Any, ...]) -> None:
    store.create(schema)
    named = [dict(zip(schema.arrow.names, ("upsert", *row), strict=True)) for row in rows]
    with store.batch(schema.table, 0, AT) as writer:
        writer.apply(pa.RecordBatch.from_pylist(named, schema=schema.arrow))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewStore]:
    store = views_in(tmp_path_factory.mktemp("keys") / "views.db").open(read_only=False)
    # n: 100 for eu and 200 for us, 10 for each shop, and the hour.
    hours = [
        (region, shop, AT + HOUR * hour, AT + HOUR * (hour + 1), first * 100 + shop * 10 + hour)
        for first, region in ((1, "eu"), (2, "us"))
        for shop in (1, 2)
        for hour in range(4)
    ]
    fill(store, HOURLY, *hours)
    fill(store, TAGGED, (["a", "b"], AT, AT + HOUR, 1), (["a"], AT, AT + HOUR, 2))
    fill(store, TOTALS, ("eu", 1, 11), ("eu", 2, 12), ("us", 1, 21))
    yield store
    store.close()


@pytest.fixture
def hourly(store: ViewStore) -> TableReader:
    return TableReader(store, "hourly")


def found(table: TableReader, *where: Any, **options: Any) -> list[int]:
    return [row["n"] for row in table.rows(*where, **options)]


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("eu", [110, 111, 112, 113, 120, 121, 122, 123]),
        (("eu",), [110, 111, 112, 113, 120, 121, 122, 123]),
        (("eu", 2), [120, 121, 122, 123]),
        (["eu", "2"], [120, 121, 122, 123]),
        ({"region": "eu", "SHOP": 2}, [120, 121, 122, 123]),
        ({"shop": 1}, [110, 111, 112, 113, 210, 211, 212, 213]),
        (("us", 1, "2026-01-01T02:00:00Z"), [212]),
        ({"shop": 1, "window_start": AT}, [110, 210]),
        ("mars", []),
    ],
)
def test_a_key_is_a_value_a_tuple_or_a_dict_and_may_be_a_part(
    hourly: TableReader, key: Any, wanted: list[int]
) -> None:
    assert found(hourly, key=key) == wanted


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        (AT + HOUR, AT + HOUR * 3, [111, 112]),
        # A window that ends when the range begins is not in it, nor one that starts when it ends.
        ("2026-01-01T01:00:00.000001Z", "2026-01-01T02:00:00Z", [111]),
        ("2026-01-01T00:59:59.999999Z", "2026-01-01T01:00:00.000001Z", [110, 111]),
        ("2026-01-01T03:30:00", None, [113]),
        (None, datetime(2026, 1, 1, 0, 0, 1), [110]),
        (datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=1))), None, [112, 113]),
        (date(2026, 1, 1), date(2026, 1, 2), [110, 111, 112, 113]),
        ("2026-01-02", None, []),
    ],
)
def test_windows_that_overlap_a_range(hourly: TableReader, since: Any, until: Any, wanted: list[int]) -> None:
    assert found(hourly, key=("eu", 1), since=since, until=until) == wanted


def test_key_and_range_go_with_everything_else(hourly: TableReader) -> None:
    assert found(hourly, "n > 111", key="eu", until=AT + HOUR * 2) == [120, 121]
    assert found(hourly, {"shop": [2]}, key="eu", since=AT + HOUR * 3) == [123]
    assert found(hourly, "n = 110 or n = 223", key="us") == [223]
    assert found(hourly, key=("eu", 1), order_by="window_start desc", limit=2) == [113, 112]
    assert found(hourly, " ", key=("eu", 1), at_least=0, until=AT + HOUR) == [110]


def test_pandas_and_plot_take_them_too(hourly: TableReader) -> None:
    frame = hourly.pandas(key=("eu", 1), since=AT + HOUR * 2)
    assert frame["n"].tolist() == [112, 113]
    plotted = hourly._numbers(["n"], {"key": ("eu", 1), "until": AT + HOUR})
    assert plotted["n"].tolist() == [110.0]
    with pytest.raises(QueryError, match="a wider filter or time range"):
        hourly.plot(key="mars")


def test_a_key_of_a_table_without_windows(store: ViewStore) -> None:
    totals = TableReader(store, "totals")
    assert found(totals, key="eu") == [11, 12]
    assert found(totals, key=("eu", 2)) == [12]
    assert found(totals, key={"shop": 1}) == [11, 21]


def test_a_key_that_is_a_list_itself(store: ViewStore) -> None:
    tagged = TableReader(store, "tagged")
    assert found(tagged, key=["a", "b"]) == found(tagged, key='["a", "b"]') == [1]
    assert found(tagged, key=["a"], since=AT) == [2]


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ("totals", {"since": "2026-01-01"}, "the table is not windowed"),
        ("totals", {"key": "eu", "until": AT}, "given: until"),
        ("totals", {"key": ("eu", 1, 2)}, "the key has 2 parts, 3 given"),
        ("hourly", {"key": ("eu", "two")}, "'two' for shop, a bigint"),
        ("hourly", {"key": ("eu", None)}, "a key is never null"),
        ("hourly", {"key": {"regio": "eu"}}, "did you mean 'region'"),
        ("hourly", {"since": "soon"}, "since is not a date or timestamp"),
        ("hourly", {"until": 5}, "2026-01-31T13:30:00Z"),
        ("hourly", {"since": AT + HOUR, "until": AT + HOUR}, "the time range is empty"),
        ("hourly", {"since": "2026-01-02", "until": date(2026, 1, 1)}, "since must be before until"),
    ],
)
def test_what_does_not_fit_is_said(store: ViewStore, table: str, options: dict[str, Any], says: str) -> None:
    for read in (TableReader(store, table).rows, TableReader(store, table).pandas):
        with pytest.raises(QueryError) as caught:
            read(**options)
        assert says in str(caught.value)
        assert caught.value.reason == "bad_request"


def test_one_row_needs_the_bounds_of_its_window(hourly: TableReader) -> None:
    row = hourly.get("eu", 1, AT, AT + HOUR)
    assert row is not None
    assert row["n"] == 110
    assert hourly.get(region="eu", shop=1, window_start=AT, window_end="2026-01-01T01:00:00Z") == row
    for read in (
        lambda: hourly.get("eu", 1),
        lambda: hourly.get(("eu", 1)),
        lambda: hourly.get(region="eu", shop=1),
        lambda: hourly.get({"SHOP": 1, "region": "eu"}),
    ):
        with pytest.raises(QueryError, match="also needs window_start and window_end") as caught:
            read()
        wanted = "for all windows of the key: rows(key=('eu', 1)), or keyfold rows hourly --key eu --key 1"
        assert caught.value.hint == wanted
    with pytest.raises(QueryError, match="the key has 4 parts, 1 given"):
        hourly.get("eu")
    with pytest.raises(QueryError, match="the key is missing window_end"):
        hourly.get(region="eu", shop=1, window_start=AT)


def test_a_key_and_a_range_are_found_by_the_primary_key(store: ViewStore) -> None:
    assert isinstance(store, SqliteStore)
    chosen = keys.narrow(HOURLY, "n > 5", ("eu", 1), AT, AT + HOUR)
    with store._readers.use() as connection:
        selection = sql.select_rows(catalog.read_schema(connection, "hourly"), chosen, None, None, None)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {selection.sql}", selection.params).fetchall()
    # No sort either: rows lie in the order of their key.
    assert [step[-1] for step in plan] == [
        "SEARCH hourly USING PRIMARY KEY (region=? AND shop=? AND window_start<?)"
    ]
    assert selection.params[:2] == ["eu", 1]
    assert "eu" not in selection.sql


def test_a_value_is_a_parameter_whatever_it_holds(hourly: TableReader, tmp_path: Path) -> None:
    assert found(hourly, key="eu' or '1'='1") == []
    with pytest.raises(QueryError, match="is not a date or timestamp"):
        hourly.rows(since="2026-01-01' or '1'='1")
