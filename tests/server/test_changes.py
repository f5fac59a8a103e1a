"""The change feed: from a snapshot or a position on, each batch once; what is gone, and how a feed ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.engine.internal_columns import OP, PREVIOUS
from keyfold.engine.log import retention
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import AppHome
from keyfold.read import open_home
from keyfold.read.changes import LogPosition
from keyfold.read.values import plain
from keyfold.server import feed, streaming
from keyfold.server.feed import Feed, Followed
from keyfold.server.log_watch import LogWatch
from keyfold.server.serving import Serving
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import AT, columns, make_app
from tests.log_files import publish
from tests.server.conftest import client, serving
from tests.server.sse import Event, Reader

A = ViewSchema("a", columns(k="string"), columns(n="long"))
B = ViewSchema("b", columns(k="string"), columns(n="long"))
FIELDS = [(OP, pa.string()), ("k", pa.string()), ("n", pa.int64())]
PLAIN = pa.schema(FIELDS)
WITH_BEFORE = pa.schema([*FIELDS, (PREVIOUS, pa.struct([("k", pa.string()), ("n", pa.int64())]))])
Row = dict[str, Any]


class App:
    """An app that commits batches to its log and its view, as a run does."""

    def __init__(self, home: Path) -> None:
        self.home = AppHome(home / "shop")
        make_app(self.home, {A: [], B: []})
        self.views = self.home.views.open(read_only=False)
        self.next = {"a": 0, "b": 0}

    def log(self, table: str) -> TableLog:
        return TableLog(self.home.table(table).log)

    def home_rows(self, table: str) -> list[Row]:
        """The rows of a view, as JSON has them."""
        rows: list[Row] = plain(list(self.views.scan(table)))
        return rows

    def commit(self, schema: ViewSchema, *changes: tuple[str, str, int | None], epoch: int = 1) -> None:
        table, batch = schema.table, self.next[schema.table]
        rows = [{OP: op, "k": k, "n": n} for op, k, n in changes]
        self.publish(table, rows, PLAIN)
        view = [{"_op": op, "k": k, "n": n} for op, k, n in changes]
        with self.views.batch(table, batch, AT + timedelta(seconds=batch)) as writer:
            if view:
                writer.apply(pa.RecordBatch.from_pylist(view, schema=schema.arrow))

    def publish(self, table: str, rows: list[Row], schema: pa.Schema) -> None:
        batch = self.next[table]
        self.next[table] += 1
        publish(
            self.log(table),
            batch,
            {"change": rows},
            schema=schema,
            at=AT,
            previous=batch - 1 if batch else None,
        )


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(tmp_path / "home")
    yield app
    app.views.close()


@pytest.fixture
def server(app: App) -> Iterator[Serving]:
    with serving(app.home.path.parent) as server:
        yield server


@pytest.fixture
def read(server: Serving) -> Iterator[Any]:
    readers: list[Reader] = []

    def open_(query: str, **headers: str) -> Reader:
        readers.append(Reader(server, query, **headers))
        return readers[-1]

    yield open_
    for reader in readers:
        reader.close()


def told(events: list[Event]) -> list[tuple[Any, ...]]:
    """What the events say, in short."""
    short: dict[str, Any] = {
        "begin": lambda data: (),
        "row": lambda data: (data["table"], data["row"]["k"], data["row"]["n"]),
        "snapshot": lambda data: (data["table"], data["batch"], data["rows"]),
        "change": lambda data: (data["table"], data["batch"], data["op"], data["key"]["k"], data["after"]),
        "batch": lambda data: (data["table"], data["batch"], data["changes"]),
        "closed": lambda data: (data["error"]["reason"],),
    }
    return [(event.kind, *short[event.kind](event.data)) for event in events]


def test_changes_come_as_they_are_committed(app: App, read: Any) -> None:
    app.commit(A, ("upsert", "x", 1))
    reader = read("tables=a")
    assert (reader.status, reader.answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert reader.answer.headers["cache-control"] == "no-store"
    assert reader.answer.headers["x-accel-buffering"] == "no"
    (begin,) = reader.until("begin")
    assert begin.id == begin.data["position"] == "shop.a@1e1"
    app.commit(A, ("upsert", "y", 2), ("delete", "x", None))
    app.commit(A)
    found = reader.until("batch", 2)
    assert told(found) == [
        ("change", "a", 1, "upsert", "y", {"k": "y", "n": 2}),
        ("change", "a", 1, "delete", "x", None),
        ("batch", "a", 1, 2),
        ("batch", "a", 2, 0),
    ]
    assert [event.id for event in found] == [None, None, "shop.a@2e1", "shop.a@3e1"]
    assert found[2].data["at"] == "2026-01-01T12:00:00Z"
    assert "before" not in found[0].data


def test_the_row_before_a_change_is_sent_where_the_log_has_it(app: App, read: Any) -> None:
    reader = read("tables=a")
    rows = [
        {OP: "upsert", "k": "x", "n": 1, PREVIOUS: None},
        {OP: "upsert", "k": "x", "n": 2, PREVIOUS: {"k": "x", "n": 1}},
        {OP: "delete", "k": "x", "n": None, PREVIOUS: {"k": "x", "n": 2}},
    ]
    app.publish("a", rows, WITH_BEFORE)
    changes = [event.data for event in reader.until("batch") if event.kind == "change"]
    assert [(one["op"], one["before"], one["after"]) for one in changes] == [
        ("upsert", None, {"k": "x", "n": 1}),
        ("upsert", {"k": "x", "n": 1}, {"k": "x", "n": 2}),
        ("delete", {"k": "x", "n": 2}, None),
    ]


def test_a_snapshot_and_the_changes_after_it_join_without_a_gap(app: App, read: Any) -> None:
    app.commit(A, ("upsert", "x", 1), ("upsert", "y", 1))
    app.commit(A, ("upsert", "x", 2))
    reader = read("tables=a&snapshot=true")
    assert told(reader.until("snapshot")) == [
        ("begin",), ("row", "a", "x", 2), ("row", "a", "y", 1), ("snapshot", "a", 1, 2)
    ]  # fmt: skip
    app.commit(A, ("upsert", "y", 3))
    assert told(reader.until("batch")) == [
        ("change", "a", 2, "upsert", "y", {"k": "y", "n": 3}), ("batch", "a", 2, 1)
    ]  # fmt: skip


def test_a_log_that_is_ahead_of_the_view_is_read_from_the_view_on(app: App, read: Any) -> None:
    app.commit(A, ("upsert", "x", 1))
    app.publish("a", [{OP: "upsert", "k": "x", "n": 2}], PLAIN)
    found = told(read("tables=a&snapshot=true").until("batch"))
    assert found[1:] == [
        ("row", "a", "x", 1), ("snapshot", "a", 0, 1),
        ("change", "a", 1, "upsert", "x", {"k": "x", "n": 2}), ("batch", "a", 1, 1),
    ]  # fmt: skip


def test_a_table_without_a_batch_begins_empty(app: App, read: Any) -> None:
    reader = read("tables=a&snapshot=true")
    assert told(reader.until("snapshot"))[1:] == [("snapshot", "a", None, 0)]
    app.commit(A, ("upsert", "x", 1))
    assert told(reader.until("batch"))[-1] == ("batch", "a", 0, 1)


@pytest.mark.parametrize("by", ["position", "last_event_id"])
def test_a_reader_goes_on_where_it_was(app: App, read: Any, by: str) -> None:
    app.commit(A, ("upsert", "x", 1))
    reader = read("tables=a&snapshot=true")
    position = str(reader.until("snapshot")[-1].id)
    reader.close()
    for n in range(3):
        app.commit(A, ("upsert", "x", 10 + n))
    again = read(f"tables=a&snapshot=true&position={position}") if by == "position" else read(
        "tables=a&snapshot=true", last_event_id=position
    )  # fmt: skip
    found = [event.data for event in again.until("batch", 3) if event.kind == "change"]
    assert [one["after"]["n"] for one in found] == [10, 11, 12]


def test_tables_share_a_feed_and_a_position(app: App, read: Any) -> None:
    app.commit(A, ("upsert", "x", 1))
    reader = read("tables=a,shop.b")
    assert reader.until("begin")[0].id == "shop.a@1e1,shop.b@0"
    app.commit(B, ("upsert", "y", 1))
    (_, batch) = reader.until("batch")
    assert (batch.data["table"], batch.id) == ("b", "shop.a@1e1,shop.b@1e1")
    app.commit(A, ("upsert", "x", 2))
    assert told(reader.until("batch"))[-1] == ("batch", "a", 1, 1)
    again = read(f"tables=b,a&position={batch.id}")
    assert told(again.until("batch"))[1:] == [
        ("change", "a", 1, "upsert", "x", {"k": "x", "n": 2}), ("batch", "a", 1, 1)
    ]  # fmt: skip


def test_a_position_that_retention_has_taken_is_gone(app: App, read: Any, server: Serving) -> None:
    for n in range(15):
        app.commit(A, ("upsert", "x", n))
    assert retention.prune(app.log("a"), 14) == 4
    get = client(server)
    found = get("/api/changes?tables=a&position=shop.a@3e1")
    assert (found.status, found.error["reason"]) == (410, "gone")
    assert found.error["what"] == "batch 3 has been removed from the log"
    assert found.json["oldest"] == "shop.a@5"
    assert told(read(f"tables=a&position={found.json['oldest']}").until("batch"))[-1] == ("batch", "a", 5, 1)


def test_a_home_that_is_away_is_not_a_log_that_was_replaced(app: App) -> None:
    app.commit(A, ("upsert", "x", 0))
    home = app.home.path.parent
    with open_home(home) as opened:
        reader = opened.app("shop")
        steps = Feed([Followed(reader, "a", reader.changes("a"))], {}, LogWatch(), snapshot=False).steps()
        assert next(steps) is None
        home.rename(home.with_name("away"))
        last = next(steps)
        home.with_name("away").rename(home)
    assert last is not None
    closed = json.loads(last.decode().partition("data: ")[2])
    assert (closed["error"]["reason"], closed["error"]["what"]) == (
        "not_ready",
        "the app's home is not there",
    )
    assert closed["position"] == "shop.a@1e1"


def test_a_reader_that_retention_overtakes_is_told_from_where_it_can_begin(app: App) -> None:
    app.commit(A, ("upsert", "x", 0))
    with open_home(app.home.path.parent) as home:
        reader = home.app("shop")
        steps = Feed([Followed(reader, "a", reader.changes("a"))], {}, LogWatch(), snapshot=False).steps()
        assert next(steps) is None
        for n in range(15):
            app.commit(A, ("upsert", "x", n))
        retention.prune(app.log("a"), 15)
        last = next(steps)
        assert last is not None
        assert list(steps) == []
    kind, data = last.decode().removesuffix("\n\n").split("\n")
    assert kind == "event: closed"
    closed = json.loads(data.removeprefix("data: "))
    assert (closed["error"]["reason"], closed["oldest"]) == ("gone", "shop.a@6")
    assert closed["position"] == "shop.a@1e1"


@pytest.mark.parametrize(
    ("position", "why"),
    [("shop.a@9e1", "the log ends before this position"), ("shop.a@2e7", "the log has other batches since")],
)
def test_a_position_in_a_log_that_was_replaced_is_gone(
    app: App, server: Serving, position: str, why: str
) -> None:
    for n in range(2):
        app.commit(A, ("upsert", "x", n))
    found = client(server)(f"/api/changes?tables=a&position={position}")
    assert found.status == 410
    assert why in found.error["what"]
    assert found.json["oldest"] == "shop.a@0"


@pytest.mark.parametrize(
    ("query", "status", "what"),
    [
        ("", 400, "tables must name some tables"),
        ("tables=", 400, "tables must name some tables"),
        ("tables=a,,b", 400, "tables must name some tables"),
        ("tables=c", 404, "no table c in app shop"),
        ("tables=shap.a", 404, "no app shap in"),
        ("tables=a&position=shop.b@1", 400, "the position is of another table"),
        ("tables=a&position=shop.a@one", 400, "not a position in a log"),
        ("tables=a&snapshot=yes", 400, "unknown snapshot 'yes'"),
        (f"tables={','.join(f't{n}' for n in range(51))}", 400, "tables must name some tables"),
    ],
)
def test_a_wrong_request_is_refused(server: Serving, query: str, status: int, what: str) -> None:
    found = client(server)(f"/api/changes?{query}")
    assert found.status == status
    assert what in found.error["what"]


def test_a_feed_without_changes_is_seen_to_be_alive(
    app: App, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_HEARTBEAT_SECONDS", 0.05)
    reader = read("tables=a")
    reader.until("begin")
    assert reader.answer.readline() == b": nothing new\n"


def test_a_server_that_stops_says_from_where_to_go_on(app: App, tmp_path: Path) -> None:
    app.commit(A, ("upsert", "x", 0))
    started = datetime.now(UTC)
    with serving(tmp_path / "home") as server:
        reader = Reader(server, "tables=a")
        reader.until("begin")
    found = list(reader)
    assert told(found) == [("closed", "not_ready")]
    assert found[0].data["position"] == "shop.a@1e1"
    assert datetime.now(UTC) - started < timedelta(seconds=15)
    reader.close()


def test_a_big_batch_is_sent_in_pieces_and_whole(app: App, read: Any) -> None:
    reader = read("tables=a")
    app.commit(A, *(("upsert", f"k{n}", n) for n in range(2_500)))
    found = reader.until("batch")
    assert [event.data["after"]["n"] for event in found if event.kind == "change"] == list(range(2_500))
    assert found[-1].data["changes"] == 2_500


def test_a_client_that_leaves_in_the_middle_of_rows_leaves_no_snapshot_behind(
    app: App, server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that stays open would keep SQLite's log from ever being cut."""
    monkeypatch.setattr(streaming, "SLOWEST_SECONDS", 0.2)
    rows = [("upsert", f"{n:06}{'x' * 400}", n) for n in range(20_000)]
    app.commit(A, *rows)
    host = server.url.removeprefix("http://")
    for leaves in (True, False):
        reader = Reader(server, "tables=a")
        reader.connection.close()
        import http.client

        slow = http.client.HTTPConnection(host, timeout=20)
        slow.request("GET", "/api/tables/a/rows?format=ndjson")
        answer = slow.getresponse()
        assert json.loads(answer.readline())["n"] == 0
        if leaves:
            slow.close()
        # Of a checkpoint: whether it was kept from cutting the log.
        assert wait_until(lambda: not busy(app), 20)
        answer.close()
        slow.close()


def busy(app: App) -> bool:
    import sqlite3
    from contextlib import closing

    app.commit(B, ("upsert", "x", 1))
    with closing(sqlite3.connect(app.home.local / "views.db", timeout=0.05)) as connection:
        return bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])


def test_a_position_is_read_as_it_was_written() -> None:
    for one in (LogPosition(0), LogPosition(7, 3)):
        assert LogPosition.parse(str(one)) == one
