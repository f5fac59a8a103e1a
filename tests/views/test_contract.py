"""What every view store must do. A new store joins by its address in `ADDRESSES`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError, QueryError, RunError
from keyfold.views import stores
from keyfold.views.contract import (
    Column,
    Difference,
    KeyRead,
    Location,
    Position,
    Views,
    ViewSchema,
    ViewStore,
)
from keyfold.views.query.filters import Compare
from keyfold.views.types.parse import parse

from .memory_store import MemoryViews

ADDRESSES = ["sqlite", "memory"]
"""SQLite, and a store of the tests' own that is plugged in under its name."""
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
Change = tuple[Any, ...]


def columns(**types: Any) -> tuple[Column, ...]:
    return tuple(Column(name, parse(kind)) for name, kind in types.items())


TOTALS = ViewSchema("totals", columns(region="string"), columns(n="long", revenue="double"))
PAIRS = ViewSchema("pairs", columns(a="string", b="long"), columns(v="string"))
EVENTS = ViewSchema(
    "events",
    columns(id="integer"),
    columns(
        name="string",
        at="timestamp",
        price="decimal(9,2)",
        tags={"type": "array", "elementType": "string", "containsNull": True},
        fields={
            "type": "struct",
            "fields": [{"name": n, "type": t, "nullable": True} for n, t in (("x", "long"), ("y", "string"))],
        },
        raw="binary",
        ratio="double",
    ),
    help="what came in",
    order=("at",),
)
EU = Compare(TOTALS.keys[0], "=", "eu")


def changes(schema: ViewSchema, *rows: Change) -> pa.RecordBatch:
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema.arrow)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def put(store: ViewStore, schema: ViewSchema, batch: int, *rows: Change) -> bool:
    with store.batch(schema.table, batch, AT + timedelta(seconds=batch)) as writer:
        if rows:
            writer.apply(changes(schema, *rows))
    return writer.replayed


def values(store: ViewStore, table: str, **scan: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[:-2] for row in store.scan(table, **scan)]


def location(address: str, directory: Path, app: str = "shop") -> Location:
    return Location(address, app, directory.as_uri(), directory / app)


@pytest.fixture(params=ADDRESSES)
def views(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Views:
    monkeypatch.setitem(stores.STORES, "memory", MemoryViews)
    return stores.views_at(location(request.param, tmp_path))


@pytest.fixture
def open_again(views: Views) -> Iterator[Callable[[], ViewStore]]:
    opened: list[ViewStore] = []

    def again() -> ViewStore:
        opened.append(views.open(read_only=False))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: Callable[[], ViewStore]) -> ViewStore:
    store = open_again()
    store.create(TOTALS)
    return store


class TestBatches:
    def test_rows_and_position_are_there_after_a_batch(self, store: ViewStore) -> None:
        watermark = datetime(2026, 1, 1, 11, tzinfo=UTC)
        with store.batch("totals", 0, AT, watermark) as writer:
            writer.apply(changes(TOTALS, ("upsert", "eu", 1, 2.5)))
            writer.apply(changes(TOTALS, ("final", "us", 2, None)))
        assert store.position("totals") == Position(0, AT, watermark)
        assert store.get("totals", ["eu"]) == {"region": "eu", "n": 1, "revenue": 2.5, "_batch": 0, "_at": AT}
        assert values(store, "totals") == [("eu", 1, 2.5), ("us", 2, None)]

    def test_a_row_tells_the_batch_that_wrote_it(self, store: ViewStore) -> None:
        put(store, TOTALS, 3, ("upsert", "eu", 1, 1.0), ("upsert", "us", 1, 1.0))
        put(store, TOTALS, 7, ("upsert", "eu", 2, 2.0))
        assert [(row["region"], row["_batch"], row["_at"]) for row in store.scan("totals")] == [
            ("eu", 7, AT + timedelta(seconds=7)),
            ("us", 3, AT + timedelta(seconds=3)),
        ]

    def test_several_batches_are_committed_together_and_rows_tell_theirs(self, store: ViewStore) -> None:
        first = [("upsert", region, 1, 1.0) for region in ("eu", "us", "asia")]
        with store.batch("totals", 1, AT) as writer:
            writer.apply(changes(TOTALS, *first))
            writer.next(Position(2, AT + timedelta(seconds=1), AT))
            writer.apply(changes(TOTALS, ("upsert", "eu", 2, 2.0), ("delete", "us", None, None)))
            assert store.position("totals") is None
        assert store.position("totals") == Position(2, AT + timedelta(seconds=1), AT)
        found = {row["region"]: (row["n"], row["_batch"], row["_at"]) for row in store.scan("totals")}
        assert found == {"asia": (1, 1, AT), "eu": (2, 2, AT + timedelta(seconds=1))}

    def test_a_batch_without_rows_moves_the_position(self, store: ViewStore) -> None:
        put(store, TOTALS, 5)
        position = store.position("totals")
        assert position is not None
        assert position.batch == 5

    def test_a_replayed_batch_is_left_out(self, store: ViewStore) -> None:
        put(store, TOTALS, 4, ("upsert", "eu", 1, 1.0))
        for old in (4, 3, 0):
            assert put(store, TOTALS, old, ("upsert", "eu", 9, 9.0), ("upsert", "us", 9, 9.0))
        assert values(store, "totals") == [("eu", 1, 1.0)]
        assert not put(store, TOTALS, 9, ("upsert", "eu", 2, 2.0))
        assert values(store, "totals") == [("eu", 2, 2.0)]

    def test_an_exception_undoes_the_whole_batch(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 1.0))
        with suppress(ZeroDivisionError), store.batch("totals", 1, AT) as writer:
            writer.apply(changes(TOTALS, ("upsert", "eu", 9, 9.0), ("delete", "us", None, None)))
            raise ZeroDivisionError
        assert values(store, "totals") == [("eu", 1, 1.0)]
        assert store.position("totals") == Position(0, AT, None)
        assert not put(store, TOTALS, 1, ("upsert", "eu", 2, 2.0))
        assert values(store, "totals") == [("eu", 2, 2.0)]

    def test_an_exception_undoes_a_batch_that_was_being_written(self, store: ViewStore) -> None:
        big = [("upsert", f"k{i}", i, 0.5) for i in range(200_000)]
        with suppress(ZeroDivisionError), store.batch("totals", 0, AT) as writer:
            writer.apply(changes(TOTALS, *big))
            raise ZeroDivisionError
        assert list(store.scan("totals")) == []
        assert store.position("totals") is None

    def test_nothing_is_seen_before_the_end_of_the_batch(self, store: ViewStore) -> None:
        with store.batch("totals", 0, AT) as writer:
            writer.apply(changes(TOTALS, ("upsert", "eu", 1, 1.0)))
            assert store.get("totals", ["eu"]) is None
            assert store.position("totals") is None

    @pytest.mark.parametrize(
        ("ops", "left"),
        [
            ("ud", None),
            ("du", 1),
            ("udu", 2),
            ("dud", None),
            ("uuu", 2),
            ("fd", None),
            ("df", 1),
            ("dd", None),
        ],
    )
    @pytest.mark.parametrize("together", [True, False])
    @pytest.mark.parametrize("before", [True, False])
    def test_the_last_change_of_a_key_wins(
        self, store: ViewStore, ops: str, left: int | None, together: bool, before: bool
    ) -> None:
        if before:
            put(store, TOTALS, 0, ("upsert", "eu", -1, None))
        names = {"u": "upsert", "d": "delete", "f": "final"}
        rows = [(names[op], "eu", i, 0.0) for i, op in enumerate(ops)]
        with store.batch("totals", 1, AT) as writer:
            for some in [rows] if together else [[row] for row in rows]:
                writer.apply(changes(TOTALS, *some))
        row = store.get("totals", ["eu"])
        assert (None if row is None else row["n"]) == left

    def test_many_changes_equal_a_plain_dict(self, store: ViewStore) -> None:
        expected: dict[str, int] = {}
        rows = []
        for i in range(30_000):
            key, gone = f"k{i * 7919 % 997}", i % 5 == 3
            rows.append(("delete" if gone else "upsert", key, i, None))
            if gone:
                expected.pop(key, None)
            else:
                expected[key] = i
        with store.batch("totals", 0, AT) as writer:
            for start in range(0, len(rows), 7001):
                writer.apply(changes(TOTALS, *rows[start : start + 7001]))
        assert {region: n for region, n, _ in values(store, "totals")} == expected

    def test_unknown_changes_are_refused(self, store: ViewStore) -> None:
        with pytest.raises(RunError, match="unknown operation in _op"):
            put(store, TOTALS, 0, ("insert", "eu", 1, 1.0))
        with (
            pytest.raises(RunError, match="do not have the columns of the view") as caught,
            store.batch("totals", 0, AT) as writer,
        ):
            writer.apply(changes(PAIRS, ("upsert", "a", 1, "x")))
        assert (caught.value.table, caught.value.batch) == ("totals", 0)
        with pytest.raises(RunError, match="cannot write the view"):
            put(store, TOTALS, 0, ("upsert", None, 1, 1.0))
        assert store.position("totals") is None

    def test_a_batch_of_an_unknown_table_is_refused(self, store: ViewStore) -> None:
        with pytest.raises(QueryError, match="totals"), store.batch("total", 0, AT):
            pass


class TestSchemas:
    def test_create_twice_keeps_the_rows(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 1.0))
        store.create(ViewSchema("totals", TOTALS.keys, TOTALS.columns, help="by region"))
        assert values(store, "totals") == [("eu", 1, 1.0)]
        assert store.schema("totals").help == "by region"

    @pytest.mark.parametrize(
        ("keys", "others", "named"),
        [
            (columns(region="long"), TOTALS.columns, "region"),
            (columns(region="string", b="long"), TOTALS.columns, "key 2"),
            (TOTALS.keys, columns(n="long", revenue="decimal(10,2)"), "revenue"),
            (TOTALS.keys, columns(n="long"), "revenue"),
            (
                TOTALS.keys,
                columns(revenue="double", n="long"),
                "n bigint in the view, revenue double in the table",
            ),
        ],
    )
    def test_another_schema_is_refused(
        self, store: ViewStore, keys: tuple[Column, ...], others: tuple[Column, ...], named: str
    ) -> None:
        with pytest.raises(RunError, match=named):
            store.create(ViewSchema("totals", keys, others))
        assert store.schema("totals") == TOTALS

    def test_the_schema_comes_back_as_it_was(self, store: ViewStore) -> None:
        nested = {"type": "array", "elementType": "decimal(20,3)", "containsNull": False}
        schema = ViewSchema("t", columns(k="date"), columns(a=nested, b="timestamp_ntz"), "help ü")
        store.create(schema)
        assert store.schema("t") == schema
        assert store.tables() == ("t", "totals")

    def test_drop_removes_rows_and_position(self, store: ViewStore) -> None:
        put(store, TOTALS, 3, ("upsert", "eu", 1, 1.0))
        store.drop("totals")
        store.drop("totals")
        assert store.tables() == ()
        assert store.position("totals") is None
        store.create(TOTALS)
        assert not put(store, TOTALS, 0, ("upsert", "us", 1, 1.0))
        assert values(store, "totals") == [("us", 1, 1.0)]

    def test_rebuild_replaces_columns_rows_and_position(self, store: ViewStore) -> None:
        put(store, TOTALS, 9, ("upsert", "eu", 1, 1.0), ("upsert", "us", 1, 1.0))
        other = ViewSchema("totals", columns(region="string"), columns(n="string"))
        parts = (changes(other, ("upsert", region, "x")) for region in ("us", "ch"))
        store.rebuild("totals", other, parts, 4, AT)
        assert values(store, "totals") == [("ch", "x"), ("us", "x")]
        assert store.position("totals") == Position(4, AT, None)
        assert store.schema("totals") == other

    def test_a_rebuild_may_keep_rows_of_before(self, store: ViewStore) -> None:
        put(store, TOTALS, 9, ("upsert", "eu", 1, 1.0), ("upsert", "us", 2, 1.0), ("upsert", "ch", 3, 1.0))
        few = Compare(TOTALS.columns[0], "<=", 2)
        assert (store.count("totals"), store.count("totals", few)) == (3, 2)
        store.rebuild("totals", TOTALS, [changes(TOTALS, ("upsert", "us", 7, 1.0))], 10, AT, keep=few)
        assert values(store, "totals") == [("eu", 1, 1.0), ("us", 7, 1.0)]
        assert [row["_batch"] for row in store.scan("totals")] == [9, 10]

    def test_rows_of_a_key_come_by_the_columns_that_the_schema_says(self, store: ViewStore) -> None:
        keys = columns(region="string", id="string")
        schema = ViewSchema("matches", keys, columns(at="long"), order=("region", "at"))
        store.create(schema)
        put(store, schema, 0, ("upsert", "us", "a", 9), ("upsert", "eu", "b", 7), ("upsert", "eu", "c", 5))
        assert values(store, "matches") == [("eu", "c", 5), ("eu", "b", 7), ("us", "a", 9)]
        assert [row["id"] for row in store.scan("matches", order_by="at desc")] == ["a", "b", "c"]

    def test_the_edition_is_another_one_after_all_but_a_batch(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 2.5), ("upsert", "us", 2, None))
        editions = [store.edition()]
        put(store, TOTALS, 1, ("upsert", "eu", 2, 2.5))
        assert store.edition() == editions[0]
        store.rebuild("totals", TOTALS, [changes(TOTALS, ("upsert", "eu", 3, 0.5))], 1, AT)
        editions.append(store.edition())
        store.erase("totals", EU, 1)
        editions.append(store.edition())
        assert len(set(editions)) == 3

    def test_a_failed_rebuild_changes_nothing(self, store: ViewStore) -> None:
        put(store, TOTALS, 9, ("upsert", "eu", 1, 1.0))

        def parts() -> Iterator[pa.RecordBatch]:
            yield changes(TOTALS, ("upsert", "us", 2, 2.0))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.rebuild("totals", TOTALS, parts(), 10, AT)
        assert values(store, "totals") == [("eu", 1, 1.0)]

    def test_names_may_hold_anything(self, store: ViewStore) -> None:
        odd = ViewSchema(
            "a \"b\" 'c'; drop",
            columns(**{'k"1': "string", "select": "long"}),
            columns(**{"ü [x] `y`": "long"}),
        )
        store.create(odd)
        put(store, odd, 0, ("upsert", "x", 1, 2))
        assert store.get(odd.table, ["x", 1]) is not None
        assert values(store, odd.table, where='`ü [x] ``y``` = 2 and `k"1` = "x"', order_by='`k"1` desc') == [
            ("x", 1, 2)
        ]
        put(store, odd, 1, ("delete", "x", 1, None))
        assert values(store, odd.table) == []


class TestReading:
    def test_get_takes_values_or_text(self, store: ViewStore) -> None:
        store.create(PAIRS)
        put(store, PAIRS, 0, ("upsert", "x", 7, "v"))
        for key in (["x", 7], ("x", "7"), ["x", 7.0]):
            row = store.get("pairs", key)
            assert row is not None
            assert list(row) == ["a", "b", "v", "_batch", "_at"]
        assert store.get("pairs", ["x", 8]) is None

    @pytest.mark.parametrize("key", [[], ["x"], ["x", 1, 2], ["x", "one"], [None, 1], [1, 1], ["x", 2**63]])
    def test_a_key_that_does_not_fit_is_refused(self, store: ViewStore, key: list[Any]) -> None:
        store.create(PAIRS)
        with pytest.raises(QueryError) as caught:
            store.get("pairs", key)
        assert caught.value.reason == "bad_request"

    def test_a_row_is_read_together_with_the_position(self, store: ViewStore) -> None:
        assert store.read_key("totals", ["eu"]) == KeyRead("totals", None, store.edition(), None)
        put(store, TOTALS, 3, ("upsert", "eu", 1, 2.5))
        found = store.read_key("totals", ["eu"])
        assert found == KeyRead(
            "totals", store.position("totals"), store.edition(), store.get("totals", ["eu"])
        )
        assert store.read_key("totals", ["us"]).row is None
        with pytest.raises(QueryError, match="unknown table"):
            store.read_key("total", ["eu"])

    def test_rows_of_several_keys_come_in_their_order(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 2.5), ("upsert", "us", 2, None))
        found = store.get_many("totals", [["us"], ["none"], ["eu"], ["us"]])
        assert [row and row["n"] for row in found] == [2, None, 1, 2]
        assert found[2] == store.get("totals", ["eu"])
        assert store.get_many("totals", []) == []
        with pytest.raises(QueryError, match="the key has 1 part, 2 given"):
            store.get_many("totals", [["us"], ["eu", 1]])

    def test_scan_filters_orders_limits_and_selects(self, store: ViewStore) -> None:
        regions = ("at", "be", "ch", "de")
        put(store, TOTALS, 0, *(("upsert", region, i % 2, float(i)) for i, region in enumerate(regions)))
        assert values(store, "totals", where="n = 1") == [("be", 1, 1.0), ("de", 1, 3.0)]
        assert [row["region"] for row in store.scan("totals", order_by="n desc, region")] == [
            "be",
            "de",
            "at",
            "ch",
        ]
        assert list(store.scan("totals", None, "revenue desc", 1, ["revenue", "_batch"])) == [
            {"revenue": 3.0, "_batch": 0}
        ]
        assert list(store.scan("totals", limit=0)) == []

    @pytest.mark.parametrize(
        "bad",
        [
            {"where": "n ="},
            {"order_by": "x"},
            {"limit": -1},
            {"limit": "1"},
            {"columns": ["x"]},
            {"where": 5},
        ],
    )
    def test_bad_arguments_are_refused_before_the_first_row(self, store: ViewStore, bad: Any) -> None:
        with pytest.raises(QueryError) as caught:
            store.scan("totals", **bad)
        assert caught.value.reason == "bad_request"

    def test_a_scan_sees_one_moment(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, *(("upsert", f"r{i}", 0, 0.0) for i in range(1000)))
        rows = store.scan("totals")
        first = next(rows)
        put(store, TOTALS, 1, *(("upsert", f"r{i}", 1, 1.0) for i in range(1000)))
        assert {first["n"], *(row["n"] for row in rows)} == {0}
        assert {row["n"] for row in store.scan("totals")} == {1}

    def test_an_unknown_table_is_not_found_and_near_names_are_named(self, store: ViewStore) -> None:
        for read in (store.schema, store.scan, lambda table: store.get(table, ["x"])):
            with pytest.raises(QueryError, match="did you mean 'totals'") as caught:
                read("totls")
            assert caught.value.reason == "not_found"
        assert store.position("totls") is None

    def test_wait_returns_at_once_or_refuses_with_both_positions(self, store: ViewStore) -> None:
        put(store, TOTALS, 5)
        assert store.wait("totals", 5).batch == 5
        assert store.wait("totals", 2).batch == 5
        with pytest.raises(QueryError, match="is at batch 5, behind batch 6") as caught:
            store.wait("totals", 6, 0)
        assert caught.value.reason == "behind_bound"
        with pytest.raises(QueryError, match=r"after 0\.02 s"):
            store.wait("totals", 6, 0.02)

    def test_wait_sees_a_batch_of_another_thread(self, store: ViewStore) -> None:
        found: list[int] = []
        waiting = threading.Thread(target=lambda: found.append(store.wait("totals", 1, 10).batch))
        waiting.start()
        put(store, TOTALS, 0)
        put(store, TOTALS, 1)
        waiting.join(10)
        assert found == [1]


class TestLife:
    def test_all_is_there_after_opening_again(self, open_again: Callable[[], ViewStore]) -> None:
        store = open_again()
        store.create(TOTALS)
        put(store, TOTALS, 2, ("upsert", "eu", 1, 1.0))
        store.close()
        again = open_again()
        again.create(TOTALS)
        assert values(again, "totals") == [("eu", 1, 1.0)]
        assert put(again, TOTALS, 2, ("upsert", "eu", 9, 9.0))

    def test_tables_are_written_by_several_threads(self, store: ViewStore) -> None:
        tables = [ViewSchema(f"t{i}", TOTALS.keys, TOTALS.columns) for i in range(6)]
        start = threading.Barrier(len(tables))
        failures: list[BaseException] = []

        def run(schema: ViewSchema) -> None:
            try:
                store.create(schema)
                start.wait()
                for batch in range(20):
                    put(store, schema, batch, *(("upsert", f"k{i}", batch, None) for i in range(200)))
                    assert {row["n"] for row in store.scan(schema.table)} == {batch}
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(schema,)) for schema in tables]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        for schema in tables:
            position = store.position(schema.table)
            assert position is not None
            assert position.batch == 19

    def test_a_batch_that_waits_for_rows_does_not_stop_the_others(self, store: ViewStore) -> None:
        other = ViewSchema("other", TOTALS.keys, TOTALS.columns)
        store.create(other)
        with store.batch("totals", 0, AT) as slow:
            slow.apply(changes(TOTALS, ("upsert", "eu", 1, 1.0)))
            put(store, other, 0, ("upsert", "us", 2, 2.0))
            assert values(store, "other") == [("us", 2, 2.0)]
            slow.apply(changes(TOTALS, ("upsert", "us", 1, 1.0)))
        assert len(values(store, "totals")) == 2

    def test_a_big_batch_beside_another_one_is_put_aside_and_written_at_its_end(
        self, store: ViewStore
    ) -> None:
        other = ViewSchema("other", TOTALS.keys, TOTALS.columns)
        store.create(other)
        part = changes(TOTALS, *(("upsert", f"{i:0100d}", i, 0.5) for i in range(20_000)))
        with store.batch("other", 0, AT), store.batch("totals", 0, AT) as big:
            for _ in range(12):
                big.apply(part)
        assert len(values(store, "totals")) == 20_000


class TestViews:
    def test_nothing_is_there_before_the_views_are_opened_for_writing(self, views: Views) -> None:
        assert not views.exists()
        with views.open(read_only=True) as reading:
            for read in (reading.tables, lambda: reading.get("totals", ["eu"])):
                with pytest.raises(QueryError) as caught:
                    read()
                assert caught.value.reason == "not_ready"
        assert not views.exists()
        views.open(read_only=False).close()
        assert views.exists()
        with views.open(read_only=True) as reading:
            assert reading.tables() == ()

    def test_a_store_that_is_open_for_reading_refuses_changes(self, views: Views, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 1.0))
        with views.open(read_only=True) as reading:
            for change in (
                lambda: reading.create(PAIRS),
                lambda: put(reading, TOTALS, 1, ("delete", "eu", None, None)),
                lambda: reading.rebuild("totals", TOTALS, (), 1, AT),
                lambda: reading.drop("totals"),
                lambda: reading.erase("totals", EU, 1),
                reading.purge,
            ):
                with pytest.raises(RunError, match="open for reading only"):
                    change()
        assert values(store, "totals") == [("eu", 1, 1.0)]

    def test_they_are_those_of_one_app_in_one_home(
        self, request: pytest.FixtureRequest, views: Views, store: ViewStore, tmp_path: Path
    ) -> None:
        address = request.node.callspec.params["views"]
        for other in (location(address, tmp_path, "bank"), location(address, tmp_path / "other")):
            others = stores.views_at(other)
            assert not others.exists()
            with others.open(read_only=False) as opened:
                assert opened.tables() == ()
            others.remove()
        assert store.tables() == ("totals",)

    def test_they_are_removed_whole(self, views: Views, open_again: Callable[[], ViewStore]) -> None:
        views.remove()
        store = open_again()
        store.create(TOTALS)
        put(store, TOTALS, 0, ("upsert", "eu", 1, 1.0))
        store.close()
        views.remove()
        assert not views.exists()
        assert open_again().tables() == ()

    def test_people_are_told_where_they_are(self, views: Views, tmp_path: Path) -> None:
        assert str(views)
        assert views.name
        assert not views.is_in(tmp_path)


class TestErasure:
    def test_the_rows_are_gone_and_the_others_as_they_were(self, store: ViewStore) -> None:
        watermark = datetime(2026, 1, 1, 11, tzinfo=UTC)
        with store.batch("totals", 3, AT, watermark) as writer:
            writer.apply(changes(TOTALS, ("upsert", "eu", 1, 1.0), ("upsert", "us", 2, None)))
        us = store.get("totals", ["us"])
        store.erase("totals", EU, 4)
        assert list(store.scan("totals")) == [us]
        assert store.position("totals") == Position(4, AT, watermark)
        store.erase("totals", EU, 4)
        assert list(store.scan("totals")) == [us]

    def test_all_rows_that_begin_with_a_part_of_the_key_are_erased(self, store: ViewStore) -> None:
        store.create(PAIRS)
        put(store, PAIRS, 0, *(("upsert", a, b, "v") for a in "xy" for b in range(3)))
        store.erase("pairs", Compare(PAIRS.keys[0], "=", "x"), 1)
        assert [row["a"] for row in store.scan("pairs")] == ["y"] * 3

    def test_a_view_that_is_further_stays(self, store: ViewStore) -> None:
        put(store, TOTALS, 5, ("upsert", "eu", 1, 1.0))
        store.erase("totals", EU, 4)
        assert values(store, "totals") == [("eu", 1, 1.0)]
        assert store.position("totals") == Position(5, AT + timedelta(seconds=5), None)

    def test_a_view_without_a_finished_batch_is_dropped(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 1.0))
        store.erase("totals", EU, None)
        assert store.tables() == ()
        store.erase("totals", EU, None)

    def test_a_view_without_a_batch_has_nothing_to_erase(self, store: ViewStore) -> None:
        store.erase("totals", EU, 0)
        assert store.position("totals") is None

    def test_purging_leaves_all_rows(self, store: ViewStore) -> None:
        put(store, TOTALS, 0, ("upsert", "eu", 1, 1.0))
        store.purge()
        assert values(store, "totals") == [("eu", 1, 1.0)]


class TestComparison:
    def test_every_kind_of_difference_is_found_by_key(self, store: ViewStore) -> None:
        rows = [("upsert", region, 1, 0.5) for region in ("asia", "eu", "us")]
        put(store, TOTALS, 0, *rows)
        wanted = [
            changes(TOTALS, *rows, ("upsert", "moon", 1, None)),
            changes(TOTALS, ("delete", "us", None, None), ("upsert", "eu", 1, None)),
        ]
        assert store.compare(TOTALS, wanted, None, 10) == [
            Difference({"region": "eu"}, "has other values"),
            Difference({"region": "moon"}, "is missing"),
            Difference({"region": "us"}, "should not be there"),
        ]
        assert [one.key["region"] for one in store.compare(TOTALS, wanted, None, 2)] == ["eu", "moon"]
        assert values(store, "totals") == [(region, 1, 0.5) for region in ("asia", "eu", "us")]
        assert store.tables() == ("totals",)

    def test_equal_rows_of_other_batches_are_no_difference(self, store: ViewStore) -> None:
        for batch in range(3):
            put(store, TOTALS, batch, ("upsert", f"k{batch}", batch, float("nan")), ("upsert", "eu", 1, None))
        rows = [("final", f"k{i}", i, float("nan")) for i in (2, 0, 1)]
        assert store.compare(TOTALS, [changes(TOTALS, *rows, ("upsert", "eu", 1, None))], None, 10) == []
        assert [one.problem for one in store.compare(TOTALS, (), None, 10)] == ["should not be there"] * 4

    def test_only_rows_that_match_are_compared(self, store: ViewStore) -> None:
        store.create(PAIRS)
        put(store, PAIRS, 0, ("upsert", "x", 1, "old"), ("upsert", "x", 2, "v"))
        wanted = [changes(PAIRS, ("upsert", "x", 2, "w"), ("upsert", "y", 1, "v"))]
        found = store.compare(PAIRS, wanted, Compare(PAIRS.keys[1], ">", 1), 10)
        assert found == [Difference({"a": "x", "b": 2}, "has other values")]


class TestCopies:
    @pytest.fixture
    def filled(self, store: ViewStore) -> ViewStore:
        store.create(EVENTS)
        store.create(PAIRS)
        for batch in range(4):
            put(store, TOTALS, batch, ("upsert", "eu", batch, 1.0), ("upsert", f"k{batch}", 1, None))
        row = (7, "first", AT, Decimal("12.50"), ["a", None], {"x": 1, "y": "z"}, b"\0\xff", float("nan"))
        with store.batch("events", 9, AT, AT - timedelta(hours=1)) as writer:
            writer.apply(changes(EVENTS, ("upsert", *row), ("final", 8, *[None] * 7)))
        return store

    @pytest.fixture
    def copy(self, filled: ViewStore, tmp_path: Path) -> Path:
        path = tmp_path / "copies" / "views.db"
        path.parent.mkdir()
        assert filled.copy_to(path)
        return path

    def test_a_copy_has_all_rows_with_their_batches(self, filled: ViewStore, copy: Path) -> None:
        before = content(filled)
        assert [row["_batch"] for row in before["totals"][2]] == [3, 0, 1, 2, 3]
        put(filled, TOTALS, 4, ("upsert", "eu", 9, 9.0))
        with stores.views_in(copy).open(read_only=True) as found:
            assert repr(content(found)) == repr(before)

    def test_a_key_can_be_erased_from_a_copy(self, copy: Path) -> None:
        with stores.views_in(copy).open(read_only=False) as found:
            found.erase("totals", EU, 4)
        assert list(copy.parent.iterdir()) == [copy], "it is one file, which can be sent away"
        with stores.views_in(copy).open(read_only=True) as found:
            assert found.get("totals", ["eu"]) is None
            assert found.count("totals") == 4

    def test_all_views_are_replaced_by_those_of_a_copy(
        self, views: Views, filled: ViewStore, copy: Path
    ) -> None:
        before = content(filled)
        put(filled, TOTALS, 4, ("upsert", "eu", 9, 9.0), ("upsert", "new", 1, 1.0))
        filled.drop("pairs")
        filled.create(ViewSchema("later", TOTALS.keys, TOTALS.columns))
        filled.close()
        views.restore_from(copy)
        with views.open(read_only=False) as restored:
            assert repr(content(restored)) == repr(before)
            assert not put(restored, TOTALS, 4, ("upsert", "eu", 5, 5.0))
        with stores.views_in(copy).open(read_only=True) as found:
            assert repr(content(found)) == repr(before), "the copy itself stays as it is"

    def test_restored_views_are_another_edition(self, views: Views, filled: ViewStore, copy: Path) -> None:
        before = filled.edition()
        views.restore_from(copy)
        assert filled.edition() != before

    def test_a_reader_sees_the_old_views_or_the_new_ones(
        self, views: Views, filled: ViewStore, copy: Path
    ) -> None:
        put(filled, TOTALS, 4, ("upsert", "eu", 9, 9.0))
        filled.close()
        with views.open(read_only=True) as reading:
            rows = reading.scan("totals", where={"region": "eu"})
            views.restore_from(copy)
            assert [row["n"] for row in rows] == [9]
            assert [row["n"] for row in reading.scan("totals", where={"region": "eu"})] == [3]

    @pytest.mark.parametrize("address", ADDRESSES)
    def test_a_copy_can_be_restored_into_a_store_of_another_kind(
        self, filled: ViewStore, copy: Path, address: str, tmp_path: Path
    ) -> None:
        other = stores.views_at(location(address, tmp_path, "clone"))
        other.restore_from(copy)
        with other.open(read_only=True) as restored:
            assert repr(content(restored)) == repr(content(filled))

    def test_what_is_no_copy_changes_nothing(self, views: Views, filled: ViewStore, tmp_path: Path) -> None:
        before = content(filled)
        (tmp_path / "other").write_bytes(b"something else" * 100)
        with pytest.raises(KeyfoldError):
            views.restore_from(tmp_path / "other")
        assert repr(content(filled)) == repr(before)


def content(store: ViewStore) -> dict[str, Any]:
    """All that a store has."""
    return {t: (store.schema(t), store.position(t), list(store.scan(t))) for t in store.tables()}
