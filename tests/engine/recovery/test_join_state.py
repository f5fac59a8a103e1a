"""State of joins of two streams: it is rewritten and changed like any other, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.plan import compiled_plan
from keyfold.cli.main import main
from keyfold.cli.reports import shadow_report
from keyfold.engine import session
from keyfold.engine.erasure.forget import forget
from keyfold.engine.migration.migrate import Migrated, migrate
from keyfold.engine.rescale import rescale
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.state import digest as state_digest
from keyfold.engine.state import size as state_size
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import surgery as key_surgery
from keyfold.errors import BadOption, StateMismatch
from keyfold.settings import load
from keyfold.testing import Driver, drive, shared_session
from tests.engine.recovery.test_resize import at

pytestmark = pytest.mark.jvm


def pairs(x: str = "int") -> kf.App:
    made = kf.App("pairs")
    left = made.stream("left", kf.rows([]), schema=f"k string, x {x}, t timestamp", time="t")
    right = made.stream("right", kf.rows([]), schema="k string, y int, t timestamp", time="t")
    for how in ("inner", "full"):
        joined = left.join(right, on="k", within="1 hour", how=how).by("k")
        joined.table(f"with_{how}", n="count(*)", left_rows="count(x)", right_rows="count(y)")
    return made


def assert_recorded_checksums_stay(rows: Any) -> None:
    """Savepoints have checksums that earlier versions have computed in SQL."""
    hashed = "cast(xxhash64(column_family_name, key_bytes, value_bytes) as decimal(38,0)) as one"
    found = rows.selectExpr("column_family_name", hashed).groupBy("column_family_name").agg({"one": "sum"})
    digest = state_digest.of_rows(rows, 1)
    assert {name: f"{total}" for name, total in found.collect()} == {
        one.family: one.checksum for one in digest
    }
    assert sum(one.rows for one in digest) == rows.count()
    assert len(digest) == 4


def test_joins_go_on_with_other_partitions_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Rows match rows from before and after; those without a match are emitted and removed in time."""
    spark, app_home = shared_session(), AppHome(tmp_path / "pairs")
    keys, numbers = "abcdefghijkl", {"with_inner": 5, "with_full": 3}

    def push(d: Driver, side: str, keys: str, *seconds: float) -> None:
        column = "x" if side == "left" else "y"
        d.push(side, [{"k": k, column: i, "t": at(s)} for i, s in enumerate(seconds) for k in keys])

    def of(d: Driver) -> list[Any]:
        homes = [d.handle.home.table(name) for name in numbers]
        return [state_digest.digest(spark, h.spark.storage, h.committed_batch() or 0) for h in homes]

    with drive(pairs()) as clean:
        with drive(pairs(), home=tmp_path) as d:
            for each in (clean, d):
                # Several rows of one key, some of one time.
                push(each, "left", keys, 1, 1, 1, 7)
                push(each, "right", keys[:4], 2, 2, 3)
        for name, number in numbers.items():
            entry = rescale.rescale(spark, app_home, name, number, None, lambda _: None)
            # Each row, and its entry in the index.
            assert entry["rows"] >= 2 * (4 * len(keys) + 3 * 4)
        home = app_home.table("with_full")
        size = state_size.largest_keys(spark, home.spark.storage, home.committed_batch() or 0, 99)
        # One key of the join is one key, whatever the times of its rows.
        assert sorted(one.key["field0"] for one in size if one.operator == 1) == list(keys)
        assert_recorded_checksums_stay(
            state_digest.read_store(spark, home.spark.storage, 1, home.committed_batch() or 0)
        )
        for words in (["create", "then", "--state"], ["verify", "then", "--state"]):
            assert main(["savepoint", *words, "--home", str(tmp_path)]) == 0
        with drive(pairs(), home=tmp_path) as d:
            for seconds in ((10, 10), (20_000, 20_001)):
                for each in (clean, d):
                    push(each, "right", keys[2:8], *seconds)
                    push(each, "left", keys[4:10], *seconds)
                for name in numbers:
                    assert d.rows(name) == clean.rows(name)
            assert of(d) == of(clean)
            found = {row["k"]: (row["n"], row["right_rows"]) for row in d.rows("with_full")}
            # Never matched, emitted when the watermark had passed them, and no longer in the state.
            assert {k: found[k] for k in "kl"} == dict.fromkeys("kl", (4, 0))
            assert sum(one.rows for one in of(d)[1] if one.family == "left-keyWithTsToValues") == 2 * 6
    # Rows of another type can't be matched with those that the joins keep.
    with pytest.raises(StateMismatch, match="joined left: k string, x int, t timestamp on disk"):
        drive(pairs(x="bigint"), home=tmp_path).__enter__()


def test_a_join_of_format_3_goes_on_with_other_partitions_and_without_a_key(tmp_path: Path) -> None:
    spark, home = shared_session(), AppHome(tmp_path / "pairs")
    made = kf.App("pairs")
    left = made.stream("left", kf.rows([]), schema="k string, x int, t timestamp", time="t")
    right = made.stream("right", kf.rows([]), schema="k string, y int, t timestamp", time="t")
    left.join(right, on="k", within="1 hour").by("k").table("joined", n="count(*)", total="sum(x * y)")
    format_3 = {"spark.sql.streaming.join.stateFormatVersion": "3"}
    with drive(made, home=tmp_path, spark=format_3) as d:
        d.push("left", [{"k": k, "x": 1, "t": at(1)} for k in "abcdef"])
        d.push("right", [{"k": k, "y": 2, "t": at(2)} for k in "abc"])
    entry = rescale.rescale(spark, home, "joined", 3, None, lambda _: None)
    # Three sums, six rows and their number on the left, three on the right.
    assert entry["rows"] == 3 + 2 * 6 + 2 * 3
    with pytest.raises(BadOption, match=r"joins two streams(.|\n)*an older format than 4"):
        forget(spark, home, "joined", ["a"], None, lambda _: None)
    given = (spark, home, "joined", ["a"], None, lambda _: None, silent)
    with key_surgery.begin(*given) as surgery:
        key_surgery.delete(surgery)
    # The format is that of the state, whatever the session says.
    with drive(made, home=tmp_path) as d:
        d.push("right", [{"k": k, "y": 3, "t": at(3)} for k in "abcdef"])
        found = {row["k"]: (row["n"], row["total"]) for row in d.rows("joined")}
    assert found == {"a": (1, 3), "b": (2, 5), "c": (2, 5), "d": (1, 3), "e": (1, 3), "f": (1, 3)}


def shop(*, more: bool = False, history: str | None = None) -> kf.App:
    made = kf.App("shop")
    schemas = {
        "orders": "id int, person string, x int, t timestamp",
        "payments": "id int, y int, t timestamp",
    }
    orders, payments = (
        made.stream(name, kf.rows([]), schema, time="t", history=history) for name, schema in schemas.items()
    )
    paid = orders.join(payments, on="id", within="1 hour", how="left")
    people = paid.by("person")
    if more:
        people.table("people", rows="count(*)", total="sum(x * y)")
    else:
        people.table("people", n="count(*)", paid="count(y)")
    paid.by("id").table("ids", n="count(*)")
    return made


def buy(d: Driver, second: float, *orders: tuple[int, str]) -> None:
    d.push("orders", [{"id": id, "person": person, "x": 1, "t": at(second)} for id, person in orders])


def pay(d: Driver, second: float, *ids: int) -> None:
    d.push("payments", [{"id": id, "y": 1, "t": at(second)} for id in ids])


def test_a_key_is_erased_from_the_rows_that_a_join_keeps(tmp_path: Path) -> None:
    spark, app_home = shared_session(), AppHome(tmp_path / "shop")

    def kept(table: str, side: str) -> list[tuple[Any, ...]]:
        found = kf.read_state(f"shop.{table}", part=f"1.{side}", home=str(tmp_path), spark=spark)
        names = [name for name in ("id", "person") if name in found.columns]
        return sorted(tuple(row[name] for name in names) for row in found.collect())

    def erase(table: str, key: str) -> dict[str, Any]:
        return forget(spark, app_home, table, [key], None, lambda _: None)

    def families(table: str) -> dict[str, int]:
        home = app_home.table(table)
        found = state_digest.digest(spark, home.spark.storage, home.committed_batch() or 0)
        return {one.family: one.rows for one in found if one.operator == 1}

    with drive(shop(), home=tmp_path) as d:
        # Orders of two people under one id, at one time.
        buy(d, 1, (1, "ada"), (2, "ada"), (3, "bob"), (4, "bob"), (9, "ada"), (9, "bob"))
        pay(d, 2, 1, 3, 9)
    before = families("people")
    assert main(["savepoint", "create", "then", "--home", str(tmp_path)]) == 0
    receipt = erase("people", "ada")
    for one in (receipt["home"], receipt["savepoints"]["then"]):
        assert one["not_searched"] == ["operator 1, the rows of the right side of a join"]
        # Three orders with their entries in the index, and what the table had folded.
        assert one["state_rows"] == 2 * 3 + 1
    assert kept("people", "left") == [(3, "bob"), (4, "bob"), (9, "bob")]
    assert kept("people", "right") == [(1,), (3,), (9,)]
    # Of the id and time that two people share, one row is left, and one entry of the index.
    assert before == {name: 6 if name.startswith("left") else 3 for name in before}
    assert families("people") == {**before, "left-keyWithTsToValues": 3, "left-tsWithKey": 3}
    assert erase("ids", "9")["home"]["not_searched"] == []
    assert kept("ids", "left") == [(1, "ada"), (2, "ada"), (3, "bob"), (4, "bob")]
    assert kept("ids", "right") == [(1,), (3,)]
    # Surgery takes a key out of what the table folds, and leaves what the join keeps.
    with key_surgery.begin(spark, app_home, "ids", ["3"], None, lambda _: None, silent) as surgery:
        key_surgery.delete(surgery)
    with drive(shop(), home=tmp_path) as d:
        pay(d, 3, 1, 2, 3, 9)
        assert {row["person"]: (row["n"], row["paid"]) for row in d.rows("people")} == {"bob": (4, 4)}
        assert {row["id"]: row["n"] for row in d.rows("ids")} == {1: 2, 2: 1, 3: 1}
        for second in (20_000, 20_001):
            buy(d, second, (5, "eve"))
            pay(d, second, 5)
        # The watermark has passed all rows from before: an order without a payment was emitted.
        assert {row["person"]: (row["n"], row["paid"]) for row in d.rows("people")}["bob"] == (5, 4)
        assert {row["id"]: row["n"] for row in d.rows("ids")} == {1: 2, 2: 1, 3: 1, 4: 1, 5: 4}
    assert families("people") == {**before, **dict.fromkeys(before, 2)}


def test_a_table_after_a_join_is_migrated_and_the_join_goes_on(tmp_path: Path) -> None:
    with drive(shop(history="1 day"), home=tmp_path) as d:
        buy(d, 1, (1, "ada"), (2, "ada"), (3, "bob"))
        pay(d, 2, 1)
        buy(d, 3, (4, "bob"))
        pay(d, 4, 2, 4)
    new, spark = shop(more=True, history="1 day"), session.users_session(shared_session(), load())
    plan = compiled_plan(spark, new.spec(), AppHome(tmp_path / "shop"), tmp_path / "feeds")
    kinds = {one.table: one.kind for one in plan.changes}
    assert kinds == {"people": "migratable", "ids": "same"}

    # Over the last two batches first, beside the app: they match rows from before them.
    (shadow,) = shadow_report.run(plan, 1, ("people",), 50).done
    assert shadow.begin.state is not None
    found = {row.key["person"]: row.after for row in shadow.rows.rows}
    assert found == {"ada": {"rows": 2, "total": 1}, "bob": {"rows": 1, "total": 1}}

    compiled = {one.spec.name: one for one in plan.tables}
    changed = [Migrated(compiled[one.table], one) for one in plan.changes if one.kind == "migratable"]
    migrate(plan.spark, plan.home, changed, None, lambda _: None)
    with drive(new, home=tmp_path) as d:
        assert {row["person"]: row["rows"] for row in d.rows("people")} == {"ada": 2, "bob": 1}
        pay(d, 5, 1, 3)
        total = {row["person"]: (row["rows"], row["total"]) for row in d.rows("people")}
    # The new sum begins with the rows after the migration; what they match is from before it.
    assert total == {"ada": (3, 1), "bob": (2, 1)}
