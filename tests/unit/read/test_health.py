"""Advice in words: what is said of which facts, and that its commands exist."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.read.advice.facts import Advice, Facts
from keyfold.read.advice.health import health
from keyfold.read.metrics import Failure, LookupStatus, Rejecting, SlowestPartition, TableStatus
from keyfold.read.positions import Follower
from keyfold.read.status import AppStatus
from keyfold.read.trends import TrendPoint, Trends

NOW = datetime(2026, 1, 8, 12, tzinfo=UTC)
COMMANDS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"


def saved(days: int) -> Savepoint:
    at = NOW - timedelta(days=days)
    return Savepoint("one", "shop", at, "bob", None, False, "4.3.0", 1, {}, (), None, True)


def facts(
    table: Mapping[str, Any] | None = None,
    declared: Mapping[str, Any] | None = None,
    keys: Sequence[int] = (),
    followers: Sequence[Follower] = (),
    savepoints: Sequence[Savepoint] | None = (saved(1),),
    **status: Any,
) -> Facts:
    """An app in which all is well, but for what is given."""
    tables = {"totals": TableStatus(**{"running": True, "batch": 7, **(table or {})})}
    given = {"state": "running", "running": True, "pid": 12, "failures": [], **status}
    app = AppStatus(
        app="shop",
        home="h",
        started=None,
        seen=None,
        age_seconds=0.5,
        ended=None,
        lookups=given.pop("lookups", {}),
        streams={},
        batch_limits={},
        tables=tables,
        **given,
    )
    stored = StoredApp(declared={"tables": [{"name": "totals", **(declared or {"ttl": "1 day"})}]})
    points = [
        TrendPoint(
            NOW - timedelta(minutes=10 * (len(keys) - n)), n, None, None, k, None, None, None, None, None
        )
        for n, k in enumerate(keys)
    ]
    return Facts(app, stored, Trends("shop", {"totals": points}), savepoints, {"totals": followers}, NOW)


FAILURE = Failure(
    at=NOW, table="totals", batch=8, kind="expression", text="DIVIDE_BY_ZERO: a / b\n  shop.py:3"
)
REJECTING = Rejecting(batch=6, rejected=90, share=0.9, reason="key a is null")
HELD = SlowestPartition(stream="orders", partition="orders-2", newest=NOW, since=NOW)
UNEVEN = {"orders-0": 9_500, "orders-1": 500}
LOOKUP = LookupStatus(rows=5, loaded=NOW, version=1, error="names.csv is gone")
CHANGES = {"changes": {"table": "orders", "previous": False}}
EVENTS = {"changes": {"table": "orders", "previous": True}}
ENRICH = {"enrich": {"table": "users", "as_of": "arrival", "on_update": False}}
UPDATED = {"enrich": {"table": "users", "as_of": "arrival", "on_update": True}}

SAID: dict[str, tuple[Facts, list[tuple[str, str]]]] = {
    "nothing": (facts(), []),
    "failed": (
        facts({"running": False}, failures=[FAILURE]),
        [("bad", "Table totals has failed in batch 8: DIVIDE_BY_ZERO: a / b. Nothing of this batch is lost")],
    ),
    "killed": (facts(state="killed", running=False), [("bad", "gone without an end")]),
    "suspended": (facts(state="suspended"), [("warn", "is suspended")]),
    "rejecting": (
        facts({"rejecting": REJECTING}),
        [("warn", "rejected 90% of batch 6: 90 rows: key a")],
    ),
    "all rejected": (
        facts({"rejecting": REJECTING, "all_rejected": True}),
        [("bad", "totals rejects every row: key a is null")],
    ),
    "rejected": (facts({"rejected": 1200}), [("hint", "totals has rejected 1,200 rows")]),
    "late": (facts({"late": 3}), [("hint", "3 rows were too late for totals")]),
    "dropped": (facts({"dropped_partials": 9}), [("warn", "dropped 9 partial matches")]),
    "a little behind": (facts({"messages_left": 900, "rows_per_second": 100.0}), []),
    "behind": (
        facts({"messages_left": 3000, "rows_per_second": 100.0}),
        [("warn", "totals is behind by 3,000 messages: That is about 30 s of work at 100 rows/s")],
    ),
    "stands still": (facts({"messages_left": 5}), [("warn", "No row is being read")]),
    "one partition": (
        facts({"messages_left": 10_000, "messages_left_by_partition": UNEVEN}),
        [("warn", "behind by 10,000"), ("warn", "95% of what totals has to read is in orders-0")],
    ),
    "stopped and behind": (facts({"messages_left": 5, "running": False}, state="stopped", running=False), []),
    "watermark": (
        facts({"watermark_held_by": HELD}),
        [("warn", "orders-2 holds the watermark of totals")],
    ),
    "a slow sink": (
        facts({"batch": 50}, followers=[Follower("sink", "out", 3), Follower("view", "totals", 49)]),
        [("warn", "sink out is 47 batches behind totals")],
    ),
    "a lookup": (facts(lookups={"names": LOOKUP}), [("warn", "Lookup names could not be reloaded")]),
    "growth without ttl": (
        facts(declared={"ttl": None}, keys=[10_000, 11_000, 12_000]),
        [("hint", "totals grows by 6,000 keys an hour and has no ttl")],
    ),
    "growth with ttl": (facts(keys=[10_000, 11_000, 12_000]), []),
    "growth of windows that close": (
        facts(declared={"window": {"kind": "tumbling"}}, keys=[10_000, 11_000, 12_000]),
        [],
    ),
    "growth of last rows": (
        facts(declared={"window": {"kind": "last"}}, keys=[10_000, 11_000, 12_000]),
        [("hint", "has no ttl")],
    ),
    "growth of a processor's table": (
        facts(declared={"process": {"mode": "update"}}, keys=[10_000, 11_000, 12_000]),
        [],
    ),
    "growth of a table of a table": (facts(declared={"input": [CHANGES]}, keys=[10_000, 11_000, 12_000]), []),
    "growth of a table of events": (
        facts(declared={"input": [EVENTS, ENRICH]}, keys=[10_000, 11_000, 12_000]),
        [("hint", "has no ttl")],
    ),
    "growth of a join with a table": (
        facts(declared={"input": [{"union": [[EVENTS, UPDATED]]}]}, keys=[10_000, 11_000, 12_000]),
        [],
    ),
    "hardly any growth": (facts(declared={"ttl": None}, keys=[100_000, 100_001, 100_002]), []),
    "no savepoint": (facts(savepoints=()), [("hint", "has no savepoint")]),
    "savepoints elsewhere": (facts(savepoints=None), []),
    "no savepoint of nothing": (facts({"batch": None}, savepoints=()), []),
    "an old savepoint": (
        facts(savepoints=[saved(30), saved(9)]),
        [("hint", "is 9 days old")],
    ),
    "views": (facts(problem="views.db is locked"), [("bad", "can't be read: views.db is locked")]),
}


def text(one: Advice) -> str:
    return f"{one.what}: {one.why}"


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str) -> None:
    given, expected = SAID[name]
    found = health(given).advice
    assert [one.level for one in found] == [level for level, _ in expected]
    for one, (_, words) in zip(found, expected, strict=True):
        assert words in text(one)


def test_the_worst_comes_first() -> None:
    given = facts({"running": False, "late": 1, "rejecting": REJECTING}, failures=[FAILURE], savepoints=())
    assert [one.level for one in health(given).advice] == ["bad", "warn", "hint", "hint"]


def test_every_command_exists_with_its_options() -> None:
    reference = COMMANDS.read_text("utf-8")
    sections = dict(re.findall(r"^##+ (keyfold [a-z ]+)\n(.*?)(?=^##|\Z)", reference, re.M | re.S))
    commands = {one.command for given, _ in SAID.values() for one in health(given).advice if one.command}
    own = sorted(one for one in commands if one.startswith("keyfold"))
    assert len(own) > 5
    for command in own:
        words = command.split()
        section = next(" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in sections)
        for option in re.findall(r"--[a-z-]+", command):
            assert f"`{option}" in sections[section], command


def test_a_command_names_the_process() -> None:
    found = health(replace(facts(state="suspended"))).advice
    assert [one.command for one in found] == ["kill -CONT 12"]
