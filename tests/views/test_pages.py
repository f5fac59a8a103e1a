"""Pages of rows with a cursor, on every store: each row once, in the order of a plain sort."""

from __future__ import annotations

import base64
import functools
import json
import math
import operator
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.errors import QueryError
from keyfold.views.contract import Column, Location, ViewSchema, ViewStore
from keyfold.views.query import filters
from keyfold.views.query.cursor import Keyset
from keyfold.views.reader import TableReader
from keyfold.views.sqlite import sql
from keyfold.views.stores import LOCAL, views_at
from keyfold.views.types.parse import parse

from .memory_store import MemoryViews

AT = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


def columns(**types: Any) -> tuple[Column, ...]:
    return tuple(Column(name, parse(kind)) for name, kind in types.items())


SCHEMA = ViewSchema(
    "t",
    columns(region="string", n="long"),
    columns(x="double", price="decimal(30,2)", at="timestamp", ok="boolean"),
)


def write(store: ViewStore, schema: ViewSchema, batch: int, *changes: Row) -> None:
    arrays = [pa.array([row[i] for row in changes], field.type) for i, field in enumerate(schema.arrow)]
    with store.batch(schema.table, batch, AT) as writer:
        writer.apply(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))


def opened(address: str, directory: Path) -> ViewStore:
    where = Location(address, "shop", directory.as_uri(), directory / "shop")
    views = MemoryViews(where) if address == "memory" else views_at(where)
    return views.open(read_only=False)


@pytest.fixture(scope="session", params=[LOCAL, "memory", "postgresql"])
def address(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return request.getfixturevalue("postgres").address() if kind == "postgresql" else kind


@pytest.fixture
def store(address: str, tmp_path: Path) -> Iterator[ViewStore]:
    with closing(opened(address, tmp_path)) as store:
        store.create(SCHEMA)
        yield store


def pages(
    reader: TableReader, limit: int, between: Callable[[], None] = lambda: None, **read: Any
) -> list[Any]:
    """All rows, page by page; `between` runs after each page."""
    found, page = [], reader.page(limit=limit, **read)
    while True:
        found += page.rows
        if page.next is None:
            return found
        assert len(page.rows) == limit
        between()
        page = reader.page(limit=limit, cursor=page.next, **read)


def keys_of(rows: list[dict[str, Any]]) -> list[Row]:
    return [(row["region"], row["n"]) for row in rows]


def fill(store: ViewStore, count: int) -> None:
    write(store, SCHEMA, 0, *(("upsert", "eu", i, None, None, None, None) for i in range(count)))


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
def test_pages_have_each_row_once_and_none_follows_the_last(store: ViewStore, limit: int) -> None:
    fill(store, 6)
    assert keys_of(pages(TableReader(store, "t"), limit)) == [("eu", i) for i in range(6)]


def test_an_empty_table_and_a_filter_without_rows_are_one_empty_page(store: ViewStore) -> None:
    reader = TableReader(store, "t")
    assert (reader.page().rows, reader.page().next) == ([], None)
    fill(store, 2)
    assert reader.page("n > 5").rows == []


def test_what_narrows_a_read_holds_on_every_page(store: ViewStore) -> None:
    fill(store, 9)
    write(store, SCHEMA, 1, ("upsert", "us", 5, None, None, None, None))
    reader = TableReader(store, "t")
    assert keys_of(pages(reader, 2, where="n >= 3", key="eu")) == [("eu", i) for i in range(3, 9)]
    assert keys_of(pages(reader, 1, where={"n": {5, 6}})) == [("eu", 5), ("eu", 6), ("us", 5)]


def test_a_row_that_stays_is_seen_once_whatever_is_written_between_pages(store: ViewStore) -> None:
    fill(store, 10)
    batches = iter(range(1, 100))

    def change() -> None:
        # A row before the cursor, one behind it, and one that is deleted where a page may have ended.
        batch = next(batches)
        write(
            store,
            SCHEMA,
            batch,
            ("upsert", "a", batch, None, None, None, None),
            ("upsert", "zz", batch, None, None, None, None),
            ("delete", "eu", 2 * batch - 1, None, None, None, None),
        )

    found = keys_of(pages(TableReader(store, "t"), 2, change))
    assert len(set(found)) == len(found)
    assert {("eu", i) for i in range(0, 10, 2)} <= set(found)
    assert [key for key in found if key[0] == "a"] == []


def test_the_default_order_of_a_schema_is_kept(store: ViewStore) -> None:
    by_n = ViewSchema("by_n", columns(id="string"), columns(n="long"), order=("n",))
    store.create(by_n)
    write(store, by_n, 0, *(("upsert", f"k{i}", -(i // 2)) for i in range(5)))
    found = pages(TableReader(store, "by_n"), 2)
    assert [row["id"] for row in found] == ["k4", "k2", "k3", "k0", "k1"]


EVERY_TYPE: dict[str, tuple[Any, list[Any]]] = {
    "short": ("short", [-3, 0, 7]),
    "single": ("float", [-0.5, 0.0, 1e30, math.inf, math.nan]),
    "exact": ("decimal(10,2)", [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
    "flag": ("boolean", [False, True]),
    "raw": ("binary", [b"", b"\x00\xff", b"a"]),
    "day": ("date", [date(1, 1, 1), date(2026, 1, 1)]),
    "local": ("timestamp_ntz", [datetime(1900, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)]),
    "took": ("interval day to second", [timedelta(-1), timedelta(0), timedelta(microseconds=1)]),
    "months": ("interval year to month", [-1, 0, 14]),
}


@pytest.mark.parametrize("name", EVERY_TYPE)
@pytest.mark.parametrize("descending", [False, True])
def test_values_of_every_type_are_kept_in_a_cursor(store: ViewStore, name: str, descending: bool) -> None:
    kind, ordered = EVERY_TYPE[name]
    schema = ViewSchema("one", columns(id="long"), columns(v=kind))
    store.create(schema)
    column = [None, *ordered]
    written = [int(v.scaleb(2)) if isinstance(v, Decimal) else v for v in column]
    write(store, schema, 0, *(("upsert", i, value) for i, value in enumerate(written)))
    found = [row["id"] for row in pages(TableReader(store, "one"), 1, order_by=f"v {'desc' * descending}")]
    assert found == sorted(range(len(column)), reverse=descending)


def test_a_key_that_is_an_array_has_a_cursor(store: ViewStore) -> None:
    tags = {"type": "array", "elementType": "timestamp", "containsNull": True}
    schema = ViewSchema("nested", columns(tags=tags), columns(n="long"))
    store.create(schema)
    write(store, schema, 0, *(("upsert", [AT, AT + timedelta(days=i)], i) for i in range(3)))
    assert [row["n"] for row in pages(TableReader(store, "nested"), 1)] == [0, 1, 2]


def changed(cursor: str, **parts: Any) -> str:
    """A cursor with other parts."""
    names = ("version", "table", "order", "where", "values")
    content = dict(zip(names, json.loads(base64.urlsafe_b64decode(cursor + "===")), strict=True))
    text = json.dumps([*{**content, **parts}.values()])
    return base64.urlsafe_b64encode(text.encode()).decode()


class TestRefused:
    @pytest.fixture
    def reader(self, store: ViewStore) -> TableReader:
        fill(store, 3)
        return TableReader(store, "t")

    @pytest.mark.parametrize("bad", ["", "x", "?", "e30", "W10", "bnVsbA", "\0", "é", 5, "W" * 100])
    def test_a_cursor_that_is_none(self, reader: TableReader, bad: Any) -> None:
        with pytest.raises(QueryError, match="the cursor is damaged") as caught:
            reader.page(cursor=bad)
        assert caught.value.reason == "bad_request"
        assert "next" in str(caught.value)

    def test_a_cursor_of_another_read(self, reader: TableReader, store: ViewStore) -> None:
        cursor = reader.page("n >= 0", "x desc", 1).next
        assert reader.page("n >= 0", "x desc", 1, cursor).rows
        assert reader.page("n >= 0", ["x desc", "region"], 1, cursor).rows
        store.create(ViewSchema("u", SCHEMA.keys, SCHEMA.columns))
        others: dict[str, Callable[[], object]] = {
            "order": lambda: reader.page("n >= 0", "x", 1, cursor),
            "filter": lambda: reader.page("n >= 1", "x desc", 1, cursor),
            "table": lambda: TableReader(store, "u").page("n >= 0", "x desc", 1, cursor),
        }
        for what, read in others.items():
            with pytest.raises(QueryError, match=f"was made for another {what}"):
                read()

    def test_a_cursor_with_other_contents(self, reader: TableReader) -> None:
        cursor = reader.page(limit=1).next
        assert cursor is not None
        with pytest.raises(QueryError, match="has version 2, and this version of keyfold reads 1"):
            reader.page(cursor=changed(cursor, version=2))
        for values in ([], ["eu"], ["eu", 1, 2], "eu", {}):
            with pytest.raises(QueryError, match="the cursor is damaged"):
                reader.page(cursor=changed(cursor, values=values))
        for values in (["eu", "x"], [None, 1], ["eu", None], [["eu"], 1], ["eu", 2**80], ["eu", {}]):
            with pytest.raises(QueryError, match="has a value that does not fit"):
                reader.page(cursor=changed(cursor, values=values))

    @pytest.mark.parametrize("limit", [0, -1, "1", 1.5])
    def test_a_limit_that_is_no_number_of_rows(self, reader: TableReader, limit: Any) -> None:
        with pytest.raises(QueryError) as caught:
            reader.page(limit=limit)
        assert caught.value.reason == "bad_request"


VALUES = {
    "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]),
    "price": st.none() | st.integers(-2, 2).map(lambda n: Decimal(n * 10**20) / 100),
    "at": st.none() | st.integers(0, 2).map(lambda days: AT + timedelta(days)),
    "ok": st.none() | st.booleans(),
}
ROWS = st.dictionaries(
    st.tuples(st.sampled_from(["", "a", "b", "é"]), st.integers(-2, 2)),
    st.fixed_dictionaries(VALUES),
    max_size=12,
)
ORDERS = st.lists(
    st.tuples(st.sampled_from([column.name for column in SCHEMA.all[:6]]), st.booleans()), max_size=3
)


def compared(one: Any, other: Any) -> int:
    """Nulls first, NaN last."""
    a, b = ((0, 0) if v is None else (2, 0) if v != v else (1, v) for v in (one, other))
    return (a > b) - (a < b)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, order=ORDERS, limit=st.integers(1, 4), least=st.integers(-2, 2))
def test_pages_are_a_plain_sort_in_parts(
    address: str, rows: dict[Row, dict[str, Any]], order: list[tuple[str, bool]], limit: int, least: int
) -> None:
    with TemporaryDirectory() as directory, closing(opened(address, Path(directory))) as store:
        store.create(SCHEMA)
        plain = [{"region": region, "n": n, **values} for (region, n), values in rows.items()]
        if plain:
            write(store, SCHEMA, 0, *(("upsert", *sent(row)) for row in plain))
        wanted = [row for row in plain if row["n"] >= least]
        for name, descending in reversed([*order, ("region", False), ("n", False)]):
            by = functools.cmp_to_key(compared)
            wanted.sort(key=lambda row, name=name: by(row[name]), reverse=descending)  # type: ignore[misc]
        by_text = [f"{name} {'desc' if descending else 'asc'}" for name, descending in order]
        reader = TableReader(store, "t")
        found = pages(reader, limit, where=f"n >= {least}", order_by=by_text or None)
        assert list(map(operator.itemgetter("region", "n"), found)) == [(r["region"], r["n"]) for r in wanted]
        assert found == reader.rows(f"n >= {least}", by_text or None) or any(r["x"] != r["x"] for r in found)


def sent(row: dict[str, Any]) -> Row:
    """A row as Spark sends it."""
    values = (row[column.name] for column in (*SCHEMA.keys, *SCHEMA.columns))
    return tuple(v.quantize(Decimal("0.01")) if isinstance(v, Decimal) else v for v in values)


def test_a_page_by_key_begins_at_its_key_in_the_index_of_sqlite() -> None:
    keyset = Keyset(SCHEMA, filters.whole_order(None, SCHEMA), filters.All(()))
    behind = keyset.after(keyset.cursor({"region": "eu", "n": 1}))
    selection = sql.select_rows(SCHEMA, behind, None, 3, None)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql.create_table(SCHEMA))
        plan = connection.execute(f"EXPLAIN QUERY PLAN {selection.sql}", selection.params).fetchall()
    assert [step[-1] for step in plan] == ["SEARCH t USING PRIMARY KEY (region>?)"]
