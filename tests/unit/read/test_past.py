"""Rows as of an earlier batch or time: from the whole log, from what has not changed since, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.engine.internal_columns import OP
from keyfold.engine.log import retention
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError
from keyfold.read import history, open_home, past
from keyfold.read.past import PastGone, PastReader
from keyfold.views.contract import ViewSchema
from keyfold.views.query.filters import checked_key
from tests.cli.conftest import AT, columns, make_app
from tests.log_files import publish

SCHEMA = ViewSchema(
    "t", columns(k="string", at="timestamp"), columns(n="long", price="decimal(9,2)", tags="double")
)
FIELDS = pa.schema([(OP, pa.string()), *((f.name, f.type) for f in list(SCHEMA.arrow)[1:])])


class Table:
    """A table with a log and a view, of which every state after a batch is remembered."""

    def __init__(self, home: Path) -> None:
        self.home = AppHome(home / "shop")
        make_app(self.home, {SCHEMA: []})
        self.views = self.home.views.open(read_only=False)
        self.states: list[list[dict[str, Any]]] = []

    @property
    def log(self) -> TableLog:
        return TableLog(self.home.table("t").log_files)

    def commit(self, *changes: tuple[str, int | None]) -> None:
        """A batch: the value of each key, None for a delete."""
        batch = len(self.states)
        rows = [self.row(key, n) for key, n in changes]
        made = pa.RecordBatch.from_pylist(rows, schema=FIELDS)
        publish(
            self.log,
            batch,
            {"change": made.to_pylist()},
            schema=FIELDS,
            at=AT + timedelta(minutes=batch),
            previous=batch - 1 if batch else None,
        )
        with self.views.batch("t", batch, AT + timedelta(minutes=batch)) as writer:
            writer.apply(made)
        self.states.append(list(self.views.scan("t")))

    def row(self, key: str, n: int | None) -> dict[str, Any]:
        one = {OP: "delete" if n is None else "upsert", "k": key, "at": AT}
        return one | ({} if n is None else {"n": n, "price": n, "tags": float("nan")})

    def forget(self, upto: int) -> None:
        """Removes the changes up to a batch, as retention does."""
        retention.prune(self.log, upto, newest=upto + retention.NEWEST)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    found = Table(tmp_path / "home")
    found.commit(("a", 1), ("b", 1), ("c", 1))
    found.commit(("a", 2), ("d", 2))
    found.commit(("b", None))
    found.commit(("b", 4), ("a", 4), ("d", None))
    yield found
    found.views.close()


@pytest.fixture
def reader(table: Table) -> Iterator[PastReader]:
    with open_home(table.home.path.parent) as home:
        yield home.app("shop").past("t")


def same(found: Any, expected: Any) -> bool:
    """Whether rows are equal; NaN is NaN."""
    return repr(found) == repr(expected)


def rows_of(reader: PastReader, batch: int, **reading: Any) -> list[dict[str, Any]]:
    with reader.rows(batch) as rows:
        return rows.rows(**reading)


def keys_of(reader: PastReader, batch: int, *keys: str) -> list[dict[str, Any] | None]:
    return reader.rows_of_keys([(key, AT) for key in keys], batch)


def gone(read: Any) -> int | None:
    with pytest.raises(PastGone) as caught:
        read()
    assert (caught.value.reason, caught.value.where) == ("gone", "shop.t")
    return caught.value.oldest


def test_rows_are_those_that_the_view_had(table: Table, reader: PastReader) -> None:
    for batch, expected in enumerate(table.states):
        assert same(rows_of(reader, batch), expected)
    assert [row["k"] for row in rows_of(reader, 1, where="n > 1", order_by="k desc", limit=1)] == ["d"]


def test_rows_of_keys_are_those_that_the_view_had(table: Table, reader: PastReader) -> None:
    for batch, expected in enumerate(table.states):
        by_key = {row["k"]: row for row in expected}
        assert same(keys_of(reader, batch, *"abcdxa"), [by_key.get(key) for key in "abcdxa"])


def test_a_time_is_the_last_batch_until_then(reader: PastReader) -> None:
    minute = timedelta(minutes=1)
    assert [reader.position(at).batch for at in (AT, AT + minute / 2, AT + minute, AT + 9 * minute)] == [
        0,
        0,
        1,
        3,
    ]
    assert reader.position(2).at == AT + 2 * minute
    assert gone(lambda: reader.position(AT - minute)) == 0


def test_what_is_yet_to_come_is_no_past(reader: PastReader) -> None:
    for as_of in (4, datetime.now(UTC) + timedelta(days=1)):
        with pytest.raises(QueryError) as caught:
            reader.position(as_of)
        assert caught.value.reason == "behind_bound"


def test_a_log_that_begins_later_tells_only_some_keys(table: Table, reader: PastReader) -> None:
    table.commit(("e", 5))
    table.forget(0)
    assert gone(lambda: reader.position(0)) == 1
    assert gone(lambda: rows_of(reader, 2)) is None
    by_key = {row["k"]: row for row in table.states[2]}
    # a by its change in batch 1, c as it has not changed, d and e by their first changes and deletes.
    assert same(keys_of(reader, 2, "a", "c", "d"), [by_key["a"], by_key["c"], by_key["d"]])
    # What b was after batch 1 is not in the log: its first change there is in batch 2.
    assert gone(lambda: keys_of(reader, 1, "b")) == 2
    assert gone(lambda: keys_of(reader, 1, "a", "e")) == 4
    assert keys_of(reader, 2, "b", "x") == [None, None]
    table.forget(1)
    assert gone(lambda: keys_of(reader, 0, "x")) == 2


def test_a_batch_whose_changes_were_only_counted_ends_what_the_log_tells(
    table: Table, reader: PastReader
) -> None:
    found = table.log.find(1)
    assert found is not None
    table.log.file(1).put(replace(found, parts=()).encode())
    assert gone(lambda: keys_of(reader, 1, "a")) == 3
    assert keys_of(reader, 2, "b") == [None]
    assert gone(lambda: rows_of(reader, 2)) is None


def test_a_view_that_was_rebuilt_does_not_tell_since_when_rows_are_so(
    table: Table, reader: PastReader
) -> None:
    rows = [{**table.row(row["k"], row["n"]), "_op": "upsert"} for row in table.states[-1]]
    made = pa.RecordBatch.from_pylist(
        [{n: r[n] for n in SCHEMA.arrow.names} for r in rows], schema=SCHEMA.arrow
    )
    table.commit(("x", 1))
    table.views.rebuild("t", SCHEMA, [made], 4, AT + timedelta(minutes=4))
    assert same(keys_of(reader, 3, "c"), [next(row for row in table.states[3] if row["k"] == "c")])
    table.forget(0)
    assert gone(lambda: keys_of(reader, 3, "c")) == 4


def test_initial_rows_are_in_no_log(reader: PastReader) -> None:
    with_initial = replace(reader, began_with="files(...)")
    assert gone(lambda: rows_of(with_initial, 1)) is None
    assert gone(lambda: keys_of(with_initial, 0, "d")) == 1
    assert same(keys_of(with_initial, 1, "d"), keys_of(reader, 1, "d"))


def test_more_changes_than_are_folded_are_refused(
    reader: PastReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "MOST_CHANGES", 5)
    assert len(rows_of(reader, 1)) == 4
    with pytest.raises(QueryError, match="had 6 changes until batch 2; at most 5") as caught:
        rows_of(reader, 2)
    assert caught.value.reason == "too_large"


def test_keys_are_searched_from_the_batch_back_until_all_are_known(
    reader: PastReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    found_in = history.changes

    def counted(log: TableLog, manifest: Manifest, schema: ViewSchema) -> Any:
        asked.append(manifest.batch)
        return found_in(log, manifest, schema)

    monkeypatch.setattr(history, "changes", counted)
    assert keys_of(reader, 2, "b") == [None]
    assert asked == [2]
    monkeypatch.setattr(history, "MOST_CHANGES", 3)
    (row,) = keys_of(reader, 2, "a")
    assert (row and row["n"], asked) == (2, [2, 2, 1])
    monkeypatch.setattr(history, "MOST_CHANGES", 2)
    with pytest.raises(QueryError, match="among more than 2 changes") as caught:
        keys_of(reader, 2, "a")
    assert (caught.value.reason, caught.value.given) == ("too_large", "as_of=2")


def test_only_the_changes_of_a_key_become_values(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.commit(*((f"k{n}", n) for n in range(1000)))
    table.commit(("k7", 8), ("k8", None))
    checked: list[Any] = []

    def counted(key: Any, schema: ViewSchema) -> list[Any]:
        checked.append(key)
        return checked_key(key, schema)

    for module in (past, history):
        monkeypatch.setattr(module, "checked_key", counted, raising=False)
    with open_home(table.home.path.parent) as home:
        rows = keys_of(home.app("shop").past("t"), 4, "k7", "k8", "none")
    assert [row and row["n"] for row in rows] == [7, 8, None]
    assert len(checked) <= 3 + 2


@pytest.mark.parametrize(
    ("type_", "value", "other"),
    [
        ("string", "ä", "a"),
        ("long", 7, 70),
        ("double", 1.5, float("nan")),
        ("double", float("nan"), 1.5),
        ("decimal(9,2)", Decimal("7.50"), Decimal("7.51")),
        ("boolean", True, False),
        ("date", date(2026, 1, 1), date(2026, 1, 2)),
        ("timestamp", AT, AT + timedelta(microseconds=1)),
        ("timestamp_ntz", AT.replace(tzinfo=None), datetime(2026, 1, 1)),
        ("binary", b"\x00", b"\x01"),
    ],
)
def test_keys_of_every_type_have_a_past(tmp_path: Path, type_: str, value: Any, other: Any) -> None:
    schema = ViewSchema("t", columns(k=type_), columns(n="long"))
    home = AppHome(tmp_path / "home" / "shop")
    make_app(home, {schema: []})
    fields = pa.schema([(OP, pa.string()), *((f.name, f.type) for f in list(schema.arrow)[1:])])
    with home.views.open(read_only=False) as views:
        for batch, n in enumerate((1, 2)):
            rows = [{OP: "upsert", "k": key, "n": n * sign} for key, sign in ((value, 1), (other, -1))]
            made = pa.RecordBatch.from_pylist(rows, schema=fields)
            log = TableLog(home.table("t").log_files)
            publish(log, batch, {"change": rows}, schema=fields, at=AT, previous=batch - 1 if batch else None)
            with views.batch("t", batch, AT) as writer:
                writer.apply(made)
    with open_home(tmp_path / "home") as opened:
        found = opened.app("shop").past("t").rows_of_keys([[value], [other]], 0)
    assert [row and row["n"] for row in found] == [1, -1]


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "2026-13-01", "٣", "9" * 19])
def test_a_text_that_is_no_batch_and_no_time_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="neither a batch nor a time"):
        past.parse(text)


def test_times_without_a_zone_are_in_utc() -> None:
    assert past.parse("2026-01-01T12:00:00") == past.parse("2026-01-01T13:00:00+01:00") == AT
    assert past.parse("12") == 12
