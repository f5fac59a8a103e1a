"""A view that takes in several batches at once has what it would have after each of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold import fault_points
from keyfold.engine.followers import follower as followers
from keyfold.engine.followers import view
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.fault_points import FaultPoint
from keyfold.views.contract import Column, ViewSchema, ViewStore
from keyfold.views.sqlite import writer
from keyfold.views.stores import views_in
from keyfold.views.types.parse import parse
from tests.log_files import publish

THEN = datetime(2026, 1, 1, tzinfo=UTC)
KEY, PAIR = (Column("k", parse("string")),), (Column("k", parse("string")), Column("j", parse("long")))
VALUE = (Column("v", parse("long")),)


class Killed(BaseException):
    """Where a process is killed, nothing handles it."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_LARGE", 10)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ViewStore]:
    store = views_in(tmp_path / "views.db").open(read_only=False)
    yield store
    store.close()


def filled(log: TableLog, schema: ViewSchema, batches: int, seed: int = 1, keys: int = 40) -> list[Manifest]:
    draw, found = random.Random(seed), []
    for batch in range(batches):
        rows = [
            {"_op": draw.choice(["upsert", "upsert", "final", "delete"]), "k": f"k{draw.randrange(keys)}"}
            | ({"j": draw.randrange(3)} if len(schema.keys) > 1 else {})
            | {"v": draw.randrange(1000)}
            for _ in range(30)
        ]
        at = THEN + timedelta(minutes=batch)
        found.append(publish(log, batch, {"change": rows}, schema=schema.arrow, at=at))
    return found


def rows(store: ViewStore) -> list[dict[str, Any]]:
    return list(store.scan("t"))


@pytest.mark.parametrize("keys", [KEY, PAIR], ids=["one key column", "two"])
def test_batches_at_once_leave_what_they_leave_one_by_one(
    tmp_path: Path, store: ViewStore, keys: tuple[Column, ...]
) -> None:
    schema, log = ViewSchema("t", keys, VALUE), TableLog(tmp_path / "log")
    manifests = filled(log, schema, 6)
    store.create(schema)
    one_by_one = ViewFollower(log, store, schema)
    for manifest in manifests:
        one_by_one.apply(manifest)
    expected, position = rows(store), store.position("t")
    assert len({row["_batch"] for row in expected}) > 3, "rows of many batches are left"
    store.drop("t")
    store.create(schema)
    at_once = ViewFollower(log, store, schema)
    at_once.apply_together(manifests[:1])
    at_once.apply_together(manifests[1:4])
    at_once.apply_together(manifests[4:])
    assert (rows(store), store.position("t")) == (expected, position)


def test_keys_that_change_again_are_written_once(
    tmp_path: Path, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, log = ViewSchema("t", KEY, VALUE), TableLog(tmp_path / "log")
    manifests = filled(log, schema, 2, keys=20)
    store.create(schema)
    written: list[set[str]] = []
    write = writer.RowWriter.write
    monkeypatch.setattr(
        writer.RowWriter,
        "write",
        lambda self, changes: written.append(set(changes["k"].to_pylist())) or write(self, changes),
    )
    ViewFollower(log, store, schema).apply_together(manifests)
    first, last = written
    assert last == {row["k"] for rows in log.rows(manifests[1], "change") for row in rows.to_pylist()}
    assert first
    assert not first & last


def test_a_kill_leaves_the_position_before_all_of_them(tmp_path: Path, store: ViewStore) -> None:
    schema, log = ViewSchema("t", KEY, VALUE), TableLog(tmp_path / "log")
    manifests = filled(log, schema, 4)
    store.create(schema)
    follower = ViewFollower(log, store, schema)
    follower.apply(manifests[0])
    before = rows(store)

    def kill(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.VIEW_WRITTEN:
            raise Killed

    with fault_points.handled_by(kill), pytest.raises(Killed):
        follower.apply_together(manifests[1:])
    assert rows(store) == before
    position = store.position("t")
    assert position is not None
    assert position.batch == 0


def test_a_large_batch_waits_for_one_that_has_begun_unless_it_is_asked_for(
    tmp_path: Path, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "_BEGINS", 60.0)
    monkeypatch.setattr(followers, "_PUBLISHED", 60.0)
    schema, log = ViewSchema("t", KEY, VALUE), TableLog(tmp_path / "log")
    store.create(schema)
    committed: list[int] = []

    def note(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.VIEW_COMMITTED:
            committed.append(facts["batch"])

    with fault_points.handled_by(note):
        follower = ViewFollower(log, store, schema)
        manifests = filled(log, schema, 5)
        follower.start()
        follower.announce_batch()
        follower.offer(manifests[0])
        follower.announce_batch()
        follower.offer(manifests[1])
        assert follower.wait_for(1, 30)
        assert committed == [1], "both at once"
        follower.offer(manifests[2])
        assert follower.wait_for(2, 30), "who waits gets it without another batch"
        follower.offer(manifests[3])
        with follower.announce_wait(3):
            store.wait("t", 3, 30)
        follower.offer(manifests[4])
        follower.close(30)
    assert committed == [1, 2, 3, 4], "and the end does not wait for more"
