"""A server that goes away: at a start, between batches, and in the middle of one."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold import fault_points
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.polling import wait_until
from keyfold.engine.recovery.view_moving import use_views
from keyfold.engine.storage.layout import local_app_home
from keyfold.errors import HomeUnusable, QueryError
from keyfold.fault_points import FaultPoint
from keyfold.views import stores
from keyfold.views.contract import Column, Location, Views, ViewSchema, ViewStore
from keyfold.views.postgresql import writer as writing
from keyfold.views.types.parse import parse
from tests.log_files import publish
from tests.ports import free_port
from tests.postgres import Server

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = ViewSchema("t", (Column("k", parse("string")),), (Column("n", parse("long")),))

KILLED_WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import pyarrow as pa
from keyfold import fault_points
from keyfold.views import stores
from keyfold.views.contract import Location

def written(point, facts):
    print(point, flush=True)
    sys.stdin.readline()

where = Location(sys.argv[1], "shop", sys.argv[2], Path(sys.argv[3]))
store = stores.views_at(where).open(read_only=False)
keys = [f"k{i}" for i in range(1000)]
with fault_points.handled_by(written), store.batch("t", 1, datetime(2026, 1, 1, tzinfo=UTC)) as writer:
    writer.apply(pa.RecordBatch.from_pydict({"_op": ["upsert"] * 1000, "k": keys, "n": [1] * 1000}))
"""


def rows(n: int, keys: int = 100) -> pa.RecordBatch:
    data = {"_op": ["upsert"] * keys, "k": [f"k{i}" for i in range(keys)], "n": [n] * keys}
    return pa.RecordBatch.from_pydict(data, schema=SCHEMA.arrow)


def put(store: ViewStore, n: int) -> bool:
    with store.batch("t", n, AT) as writer:
        writer.apply(rows(n))
    return writer.replayed


def state(store: ViewStore) -> tuple[int | None, set[int]]:
    """The batch of the view, and the values of its rows."""
    position = store.position("t")
    return None if position is None else position.batch, {row["n"] for row in store.scan("t")}


@pytest.fixture
def views(postgres: Server, tmp_path: Path) -> Iterator[Views]:
    yield stores.views_at(Location(postgres.address(), "shop", tmp_path.as_uri(), tmp_path / "shop"))
    with suppress(AssertionError):
        if not postgres.runs:
            postgres.start()


@pytest.fixture
def store(views: Views) -> Iterator[ViewStore]:
    with views.open(read_only=False) as store:
        store.create(SCHEMA)
        put(store, 0)
        yield store


def test_a_server_that_is_down_is_said_within_seconds(tmp_path: Path) -> None:
    address = f"postgresql://ada@127.0.0.1:{free_port()}/shop"
    views = stores.views_at(Location(address, "shop", tmp_path.as_uri(), tmp_path))
    begun = time.monotonic()
    with pytest.raises(HomeUnusable, match=r"(?s)refused.*where: postgresql://ada@.*try: start the server"):
        views.open(read_only=False)
    reading = views.open(read_only=True)
    for read in (views.exists, reading.tables, lambda: reading.scan("t"), lambda: reading.get("t", ["k"])):
        with pytest.raises(QueryError, match=r"(?s)refused.*try: start the server") as caught:
            read()
        assert caught.value.reason == "not_ready"
    for change in (views.remove, lambda: views.restore_from(copy_of_nothing(tmp_path))):
        with pytest.raises(HomeUnusable, match="refused"):
            change()
    home = local_app_home(tmp_path, "shop")
    with pytest.raises(QueryError, match="refused"):
        use_views(home, address)
    assert home.views_address == stores.LOCAL
    assert time.monotonic() - begun < 5


def copy_of_nothing(directory: Path) -> Path:
    path = directory / "copy.db"
    stores.views_in(path).open(read_only=False).close()
    return path


def test_a_kill_between_batches_is_not_noticed(postgres: Server, store: ViewStore) -> None:
    assert state(store) == (0, {0})
    postgres.kill()
    with pytest.raises(QueryError, match="start the server") as caught:
        state(store)
    assert caught.value.reason == "not_ready"
    with pytest.raises(HomeUnusable, match="start the server"):
        put(store, 1)
    postgres.start()
    assert not put(store, 1)
    assert state(store) == (1, {1})
    assert put(store, 1)


def test_a_restart_while_a_batch_waits_for_rows_is_not_noticed(postgres: Server, store: ViewStore) -> None:
    with store.batch("t", 1, AT) as writer:
        writer.apply(rows(1))
        postgres.kill()
        postgres.start()
    assert state(store) == (1, {1})


def test_a_kill_in_the_middle_of_a_batch_leaves_the_one_before(
    postgres: Server, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_GATHERED_BYTES", 1000)
    with pytest.raises(HomeUnusable) as caught, store.batch("t", 1, AT) as writer:  # noqa: PT012
        writer.apply(rows(1))
        postgres.kill()
        writer.apply(rows(2))
    assert (caught.value.table, caught.value.batch) == ("t", 1)
    postgres.start()
    assert state(store) == (0, {0})
    assert not put(store, 1)
    assert state(store) == (1, {1})


def test_a_kill_before_the_commit_leaves_the_batch_before(postgres: Server, store: ViewStore) -> None:
    def kill(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.VIEW_WRITTEN:
            postgres.kill()

    with fault_points.handled_by(kill), pytest.raises(HomeUnusable):
        put(store, 1)
    postgres.start()
    assert state(store) == (0, {0})
    assert not put(store, 1)
    assert state(store) == (1, {1})


def test_a_kill_while_the_server_commits_leaves_the_old_rows_or_the_new_ones(
    postgres: Server, store: ViewStore
) -> None:
    done = threading.Event()

    def kill() -> None:
        postgres.kill()
        done.set()

    def at_commit(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.VIEW_WRITTEN:
            threading.Thread(target=kill).start()

    with fault_points.handled_by(at_commit), suppress(HomeUnusable):
        put(store, 1)
    assert done.wait(30)
    postgres.start()
    found = state(store)
    assert found in [(0, {0}), (1, {1})]
    assert put(store, 1) == (found == (1, {1}))
    assert state(store) == (1, {1})


def test_a_follower_waits_for_the_server_and_applies_each_batch_once(
    postgres: Server, store: ViewStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = TableLog(tmp_path / "log")
    store.drop("t")
    store.create(SCHEMA)
    manifests = [
        publish(log, n, {"change": rows(n).to_pylist()}, schema=SCHEMA.arrow, at=AT) for n in range(3)
    ]
    follower = ViewFollower(TableLog(tmp_path / "empty"), store, SCHEMA)
    follower.log = log
    killed = threading.Event()
    committed: list[int] = []

    def at(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.VIEW_WRITTEN and facts["batch"] == 1 and not killed.is_set():
            postgres.kill()
            killed.set()
        if point == FaultPoint.VIEW_COMMITTED:
            committed.append(facts["batch"])

    with fault_points.handled_by(at), caplog.at_level(logging.WARNING, "keyfold"):
        follower.start()
        for manifest in manifests:
            follower.offer(manifest)
        assert killed.wait(30)
        assert wait_until(lambda: "can't be written now, retrying" in caplog.text, 30)
        assert follower.position == 0
        postgres.start()
        assert follower.wait_for(2, 30)
        follower.close(30)
    assert committed == [0, 1, 2]
    assert state(store) == (2, {2})
    assert "can be written again" in caplog.text


def test_a_follower_whose_app_is_stopped_does_not_wait(
    postgres: Server, store: ViewStore, tmp_path: Path
) -> None:
    log = TableLog(tmp_path / "log")
    follower = ViewFollower(log, store, SCHEMA)
    manifest = publish(log, 1, {"change": rows(1).to_pylist()}, schema=SCHEMA.arrow, at=AT)
    postgres.kill()
    follower.start()
    follower.offer(manifest)
    follower.close(30)
    assert not follower._thread.is_alive()
    assert follower.error is None
    postgres.start()
    assert state(store) == (0, {0})


def test_a_scan_that_loses_its_server_is_told(postgres: Server, store: ViewStore) -> None:
    with store.batch("t", 1, AT) as writer:
        writer.apply(rows(1, keys=20_000))
    found = store.scan("t")
    next(found)
    postgres.kill()
    with pytest.raises(QueryError, match="try: start the server"):
        list(found)
    postgres.start()
    assert len(list(store.scan("t"))) == 20_000


def test_a_process_that_is_killed_before_its_commit_leaves_the_batch_before(
    postgres: Server, store: ViewStore, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-c",
        KILLED_WRITER,
        postgres.address(),
        tmp_path.as_uri(),
        str(tmp_path / "shop"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "view written"
        assert state(store) == (0, {0})
        other.kill()
    assert not put(store, 1)
    assert state(store) == (1, {1})
    assert store.count("t") == 100
