"""Positions of sinks: from numbers, as an earlier version wrote them, to names; and missing batches."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.log.retention import prune
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import sink_positions
from keyfold.engine.recovery.followed import require_followed
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.errors import BadOption, StateMismatch
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.plan.describe.as_json import to_dict
from keyfold.plan.nodes import AppSpec, Connector
from tests.log_files import publish

A, B, C = kf.files("a"), kf.files("b"), kf.files("c")
TOPIC = kf.kafka("one:9092", topic="totals")
MIRROR = kf.kafka("two:9092", topic="totals")
Position = dict[str, Any]


def app(*sinks: Connector | tuple[str, Connector], table: str = "totals") -> AppSpec:
    made = kf.App("shop")
    totals = made.stream("orders", kf.rows([]), "k string").by("k").table(table, n="count(*)")
    for sink in sinks:
        name, connector = sink if isinstance(sink, tuple) else (None, sink)
        totals.to(connector, name=name)
    return made.spec()


def recorded(spec: AppSpec, *, names: bool = True) -> StoredApp:
    """What app.json has of an app; an earlier version recorded no names of sinks."""
    declared = json.loads(json.dumps(to_dict(spec)))
    for table in () if names else declared["tables"]:
        for sink in table["sinks"]:
            del sink["name"]
    return StoredApp({table.name: StoredTable() for table in spec.tables}, declared=declared)


def old(*sinks: Connector) -> StoredApp:
    """What an earlier version recorded; it had no names, so that sinks of one address were allowed."""
    return recorded(app(*((f"s{n}", sink) for n, sink in enumerate(sinks))), names=False)


@pytest.fixture
def home(tmp_path: Path) -> AppHome:
    return AppHome(tmp_path / "shop")


def put(home: AppHome, **files: Position) -> None:
    for name, position in files.items():
        home.table("totals").sink(name.removeprefix("_")).put(json.dumps(position).encode())


def found(home: AppHome, table: str = "totals") -> dict[str, Position]:
    directory = home.table(table).path / "sinks"
    return {file.stem: json.loads(file.read_text()) for file in directory.glob("*")}


def test_numbers_are_those_of_the_recorded_declaration_whatever_is_declared_now(home: AppHome) -> None:
    mine = {"batch": 3, "topic": "totals", "id": "one"}
    for now in (app(A, B, TOPIC), app(C, TOPIC, B, A), app(C, A), app()):
        put(home, _0={"batch": 1}, _1={"batch": 2}, _2=mine)
        for _ in range(2):
            sink_positions.prepare(now, old(A, B, TOPIC), home)
            assert found(home) == {"files-a": {"batch": 1}, "files-b": {"batch": 2}, "kafka-totals": mine}


def test_tables_that_are_left_out_are_taken_over_too(home: AppHome) -> None:
    put(home, _0={"batch": 1})
    sink_positions.prepare(app(B, table="other"), old(A), home)
    assert found(home) == {"files-a": {"batch": 1}}


def test_a_name_that_is_given_at_once_takes_the_position(home: AppHome) -> None:
    put(home, _0={"batch": 1}, _1={"batch": 2, "id": "two"})
    sink_positions.prepare(app(("mirror", MIRROR), C, TOPIC), old(TOPIC, MIRROR), home)
    assert found(home) == {"kafka-totals": {"batch": 1}, "mirror": {"batch": 2, "id": "two"}}


def test_sinks_that_the_record_does_not_tell_apart_go_on_after_the_first_position(
    home: AppHome, caplog: pytest.LogCaptureFixture
) -> None:
    put(home, _0={"batch": 5, "id": "one"}, _1={"batch": 2, "id": "two"})
    changed = kf.kafka("three:9092", topic="totals")
    with caplog.at_level(logging.WARNING, "keyfold"):
        sink_positions.prepare(app(("x", changed), ("y", changed)), old(TOPIC, MIRROR), home)
    assert found(home) == {"x": {"batch": 2}, "y": {"batch": 2}}
    assert "shop.totals: app.json does not tell which of the positions 0, 1 is that of sink x" in caplog.text


def test_without_a_record_of_the_table_the_order_of_today_counts_and_is_named(
    home: AppHome, caplog: pytest.LogCaptureFixture
) -> None:
    put(home, _0={"batch": 1}, _1={"batch": 2})
    with caplog.at_level(logging.WARNING, "keyfold"):
        sink_positions.prepare(app(B, A), recorded(app(table="other"), names=False), home)
    assert found(home) == {"files-b": {"batch": 1}, "files-a": {"batch": 2}}
    assert "does not say to which sinks positions 0, 1 belong" in caplog.text


class Killed(Exception):
    pass


@pytest.mark.parametrize("steps", range(9))
def test_a_take_over_that_is_killed_is_done_again(home: AppHome, steps: int) -> None:
    """After each step: a position is under its number, or its name, or both."""
    put(home, _0={"batch": 1}, _1={"batch": 7, "id": "one"}, _2={"batch": 4, "id": "two"})
    was, now = old(A, TOPIC, MIRROR), app(C, A, ("both", kf.kafka("three:9092", topic="totals")))
    done: list[FaultPoint] = []

    def kill(point: FaultPoint, _: dict[str, Any]) -> None:
        done.append(point)
        if len(done) > steps:
            raise Killed

    with handled_by(kill), pytest.raises(Killed):
        sink_positions.prepare(now, was, home)
    assert (done[-1] == FaultPoint.SINK_NUMBER_REMOVED) == (steps > 5)
    sink_positions.prepare(now, was, home)
    kept = found(home)
    assert {name: position["batch"] for name, position in kept.items()} == {"files-a": 1, "both": 4}


def logged(home: AppHome, batches: int) -> TableLog:
    log = TableLog(home.table("totals").log_files)
    for batch in range(batches):
        publish(log, batch, {"change": [{"k": "a"}]}, previous=batch - 1 if batch else None)
        home.table("totals").storage.put(f"checkpoint/commits/{batch}", b"v1\n{}")
    return log


def test_a_sink_that_was_away_goes_on_or_is_refused_with_the_batches_that_are_gone(
    home: AppHome, caplog: pytest.LogCaptureFixture
) -> None:
    log = logged(home, 20)
    put(home, **{"files-a": {"batch": 19}, "files-b": {"batch": 3}})
    with caplog.at_level(logging.WARNING, "keyfold"):
        sink_positions.prepare(app(A), recorded(app(A, B)), home)
    assert "sink files-b is no longer declared, and has not written batches 4 to 19" in caplog.text
    caplog.clear()
    sink_positions.prepare(app(A), recorded(app(A)), home)
    assert not caplog.text, "it is said once"
    sink_positions.prepare(app(B, A), recorded(app(A)), home)
    prune(log, 8)
    with pytest.raises(
        StateMismatch, match=r"sink files-b of shop\.totals .* has missed batches 4 to 8"
    ) as error:
        sink_positions.prepare(app(B, A), recorded(app(A)), home)
    assert error.value.given == "sink files-b at batch 3"
    sink_positions.prepare(app(A, ("anew", B)), recorded(app(A)), home)
    put(home, **{"files-b": {"batch": 8}})
    sink_positions.prepare(app(B, A), recorded(app(A)), home)
    # A batch whose changes were only counted, as while nobody reads the log; uncommitted, it runs again.
    publish(log, 20, counts={"change": 3}, previous=19)
    put(home, **{"files-b": {"batch": 19}})
    sink_positions.prepare(app(B, A), recorded(app(A)), home)
    home.table("totals").storage.put("checkpoint/commits/20", b"v1\n{}")
    with pytest.raises(StateMismatch, match="has missed batches 20 to 20"):
        sink_positions.prepare(app(B, A), recorded(app(A)), home)


def test_a_migration_waits_for_sinks_that_are_declared_alone(home: AppHome) -> None:
    logged(home, 5)
    put(home, **{"files-a": {"batch": 4}, "files-b": {"batch": 3}, "_1": {"batch": 2}})
    home.write_plan(recorded(app(A)))
    require_followed(home, "totals")
    home.write_plan(recorded(app(A, B)))
    with pytest.raises(BadOption, match=r"^sink files-b must first read the newest changes of shop\.totals"):
        require_followed(home, "totals")
    home.write_plan(old(C, A))
    with pytest.raises(BadOption, match=r"^sink 1 must first read the newest changes of shop\.totals"):
        require_followed(home, "totals")
