"""Which table of a savepoint is which one of today, whatever it was called."""

from __future__ import annotations

from keyfold.engine.erasure.savepoint_erasure import key_then
from keyfold.engine.migration.table_names import rename, then_called
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.engine.surgery.key_erasure import TableKey

TABLE = StoredTable()


def plan(**tables: StoredTable) -> StoredApp:
    return StoredApp(tables)


def test_a_table_has_its_old_name_in_savepoints_from_before_a_rename() -> None:
    sums = rename(TABLE, "totals", "1")
    now = plan(sums=sums)
    assert then_called(now, "sums", plan(totals=TABLE, other=TABLE)) == "totals"
    assert then_called(now, "sums", now) == "sums"
    assert then_called(now, "sums", plan(other=TABLE)) is None
    twice = plan(amounts=rename(sums, "sums", "2"))
    for then, name in ((plan(totals=TABLE), "totals"), (now, "sums"), (twice, "amounts")):
        assert then_called(twice, "amounts", then) == name


def test_a_restore_takes_a_rename_back_and_savepoints_since_then_have_the_newer_name() -> None:
    later = plan(sums=rename(TABLE, "totals", "1"))
    assert then_called(plan(totals=TABLE), "totals", later) == "sums"
    # It is renamed again, to something else.
    assert then_called(plan(amounts=rename(TABLE, "totals", "5")), "amounts", later) == "sums"


def test_another_table_that_took_the_old_name_is_another_table() -> None:
    now = plan(sums=rename(TABLE, "totals", "1"), totals=TABLE)
    assert then_called(now, "sums", now) == "sums"
    assert then_called(now, "totals", now) == "totals"
    # The savepoint is older than the rename, and so than the table that has the name today.
    assert then_called(now, "sums", plan(totals=TABLE)) == "totals"
    assert then_called(now, "totals", plan(totals=TABLE)) is None
    # A name that a table had for a while, and another one has now.
    assert then_called(plan(b=rename(TABLE, "a", "1")), "b", plan(b=rename(TABLE, "c", "2"))) is None


def test_without_definitions_nothing_is_known() -> None:
    assert then_called(StoredApp(), "totals", StoredApp()) is None
    assert then_called(StoredApp(), "totals", plan(totals=TABLE)) == "totals"


def key(**columns: str) -> TableKey:
    return TableKey(tuple(columns), tuple(columns.values()), tuple(columns))


def test_a_key_of_today_is_found_by_the_columns_that_it_had_then() -> None:
    now = {"area": "region", "day": "day"}
    whole, first = key(area="eu", day="1"), TableKey(("area",), ("eu",), ("area", "day"))
    same = key_then(whole, now, {"day": "day", "area": "region"})
    assert same is not None
    assert (same.columns, same.declared) == ({"area": "eu", "day": "1"}, ("day", "area"))
    renamed_column = key_then(first, now, {"region": "region"})
    assert renamed_column is not None
    assert (renamed_column.columns, renamed_column.is_whole) == ({"region": "eu"}, True)
    longer = key_then(whole, now, {"area": "region", "hour": "hour", "day": "day"})
    assert longer is not None
    assert (longer.columns, longer.is_whole) == ({"area": "eu", "day": "1"}, False)
    # What was added since is computed from what was there.
    shorter = key_then(whole, now, {"day": "day"})
    assert shorter is not None
    assert (shorter.columns, shorter.is_whole) == ({"day": "1"}, True)
    assert key_then(first, now, {"day": "day"}) is None
    assert key_then(whole, now, {"day": "day", "hour": "hour"}) is None
    assert key_then(whole, now, {}) is whole, "nothing is known of then"


def test_key_columns_that_took_each_others_names_are_found_by_what_they_are() -> None:
    swapped = key_then(key(a="1", b="2"), {"a": "x", "b": "y"}, {"a": "y", "b": "x"})
    assert swapped is not None
    assert swapped.columns == {"b": "1", "a": "2"}
    for columns in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}):
        # `a` is something else now, and what it was is called `b`: its value says nothing about that time.
        assert key_then(key(**columns), {"a": "z", "b": "x"}, {"a": "x", "c": "y"}) is None
        found = key_then(key(**columns), {"a": "z", "b": "x"}, {"a": "x"})
        assert found is not None
        assert found.columns == {"a": "2"}
