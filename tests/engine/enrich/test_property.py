"""Random rows of a stream and of a table that it meets, with crashes and restarts, equal brute force.

A plan is made from one drawn number, since the few examples that there is time for must all be rich ones.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models.enrich_model import Arrival, Event, Row, Table, newest, totals
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
SCHEMA = "k string, v bigint, u int, t timestamp"
STREAMS = ("news", "rows")
FOLDS: dict[Any, dict[str, str]] = {newest: {}, totals: {"n": "count(*)", "s": "sum(v)"}}


def s(seconds: int | None) -> str | None:
    return None if seconds is None else f"{seconds} seconds"


def shown(row: Row) -> dict[str, Any]:
    return {"k": row.k, "v": row.v, "u": row.u, "t": datetime.fromtimestamp(row.t, UTC)}


class Case:
    """Two streams, tables of the first, and the second enriched by them."""

    def __init__(self, chance: Random, late: tuple[int, int]) -> None:
        self.chance, self.number, self.late = chance, 0, late
        self.app = kf.App("random")
        self.news, self.rows = (
            self.app.stream(name, kf.rows([]), SCHEMA, time="t", late=s(allowed))
            for name, allowed in zip(STREAMS, late, strict=True)
        )

    def table(self, name: str, fold: Any, ttl: int | None) -> Any:
        keyed = self.news.by("k")
        if fold is newest:
            return keyed.latest().table(name, w="v", ttl=s(ttl))
        return keyed.table(name, **FOLDS[fold], ttl=s(ttl))

    def reader(self, name: str, table: Any, fold: Any, **options: Any) -> None:
        """Each row by its number: how often it is there, what it has met; and which have met the same."""
        columns = list(FOLDS[fold]) or ["w"]
        met = self.rows.select("u", "k").enrich(table, **options)
        met.by("u").table(name, {"rows": "count(*)", **{c: f"sum({c})" for c in columns}})
        if options.get("on_update"):
            met.by(group=f"coalesce({columns[-1]}, -100)").table(f"{name}_groups", us="sum(u)")

    def batch(self, moment: int, spread: int) -> list[Row]:
        """Rows around a moment, out of order, some of them without a key."""
        found = []
        for _ in range(self.chance.randrange(1, 8)):
            self.number += 1
            k = self.chance.choice(["a", "a", "b", "c", None])
            t = moment + self.chance.randrange(-spread, 5)
            found.append(Row(k, t, self.chance.randrange(9), self.number))
        return found

    def push(self, d: Driver, side: int, rows: list[Row]) -> None:
        d.push(STREAMS[side], [shown(r) for r in rows])


def check(d: Driver, name: str, said: dict[int, Any]) -> None:
    rows = d.rows(name)
    assert {r["rows"] for r in rows} <= {1}, name
    found = {r["u"]: tuple(v for n, v in r.items() if n not in ("u", "rows")) for r in rows}
    assert {u: None if set(v) == {None} else v for u, v in found.items()} == said, name


def check_groups(d: Driver, name: str, said: dict[int, Any]) -> None:
    expected: Counter[int] = Counter()
    for u, value in said.items():
        expected[-100 if value is None else value[-1]] += u
    assert {r["group"]: r["us"] for r in d.rows(f"{name}_groups")} == expected, name


@plans(2)
@given(seed=st.integers(0, 2**32))
def test_rows_that_meet_a_table_as_it_is_equal_brute_force(seed: int) -> None:
    chance = Random(f"arrival {seed}")
    late = chance.choice([0, 3]), chance.choice([0, 5])
    case = Case(chance, late)
    fold, ttl = chance.choice([newest, totals]), chance.choice([None, 20])
    table, declared = Table(fold, late[0], ttl), case.table("t", fold, ttl)
    hows = chance.sample(["left", "inner"] * 2, k=3)
    wait, keep = chance.choice([0, 4, 12]), chance.choice([None, 9])
    case.reader("plain", declared, fold, how=hows[0])
    case.reader("waits", declared, fold, how=hows[1], wait=s(wait))
    case.reader("follows", declared, fold, how=hows[2], on_update=True, keep=s(keep))
    models = {
        "plain": Arrival(hows[0], late[1]),
        "waits": Arrival(hows[1], late[1], wait=wait),
        "follows": Arrival(hows[2], late[1], follow=True, keep=keep),
    }
    moment = START
    with drive(case.app) as d:
        for then in chance.sample(["", "", "", "restart", "crash", "crash"], k=6):
            side = chance.randrange(2)
            moment += chance.randrange(1, 8)
            rows = case.batch(moment, 12)
            case.push(d, side, rows)
            if side == 0:
                table.push(rows)
            for model in models.values():
                model.change(table.values()) if side == 0 else model.push(rows)
            if then:
                getattr(d, then)()
            for name, model in models.items():
                check(d, name, model.said)
            check_groups(d, "follows", models["follows"].said)
        d.advance("news", datetime.fromtimestamp(moment + 10, UTC))
        table.advance(moment + 10)
        d.advance("rows", datetime.fromtimestamp(moment + 30, UTC))
        for name, model in models.items():
            model.change(table.values())
            model.advance(moment + 30)
            check(d, name, model.said)
            assert d.late(name) == d.rejected(name) == []
        check_groups(d, "follows", models["follows"].said)


def both(d: Driver, models: dict[str, Event], to: int) -> None:
    for side, stream in enumerate(STREAMS):
        d.advance(stream, datetime.fromtimestamp(to, UTC))
        for model in models.values():
            model.advance(side, to)


@plans(2)
@given(seed=st.integers(0, 2**32))
def test_rows_that_meet_a_table_as_it_was_equal_brute_force(seed: int) -> None:
    chance = Random(f"event {seed}")
    late = chance.choice([0, 6]), chance.choice([0, 6])
    case = Case(chance, late)
    ttl, wait = chance.choice([None, 8]), chance.choice([0, 3, 10])
    last, sums = case.table("last", newest, ttl), case.table("sums", totals, None)
    case.reader("latest_now", last, newest, as_of="event")
    case.reader("latest_wait", last, newest, as_of="event", wait=s(wait), how="inner")
    case.reader("sums_now", sums, totals, as_of="event", how="inner")
    models = {
        "latest_now": Event("left", newest, late, None, ttl),
        "latest_wait": Event("inner", newest, late, wait, ttl),
        "sums_now": Event("inner", totals, late),
    }
    moment = START
    with drive(case.app) as d:
        for then in chance.sample(["", "", "", "restart", "crash", "crash"], k=6):
            side = chance.randrange(2)
            moment += chance.randrange(1, 8)
            rows = case.batch(moment, 14)
            case.push(d, side, rows)
            if then:
                getattr(d, then)()
            for name, model in models.items():
                model.push(side, rows)
                if then:
                    getattr(model, then)()
                check(d, name, model.said)
        both(d, models, moment + 40)
        for name, model in models.items():
            check(d, name, model.said)
            found = Counter(json.loads(r["raw"])["u"] for r in d.late(name))
            assert found == Counter(model.too_late), name


@plans(2)
@given(seed=st.integers(0, 2**32))
def test_rows_that_wait_have_one_answer_in_whatever_order_both_streams_come(seed: int) -> None:
    chance = Random(f"shuffled {seed}")
    late = 10
    case = Case(chance, (late, late))
    last, sums = case.table("last", newest, chance.choice([None, 9])), case.table("sums", totals, None)
    models = {
        "latest_met": Event("left", newest, (late, late), 0, last.spec.ttl_ms and last.spec.ttl_ms // 1000),
        "sums_met": Event("left", totals, (late, late), 0),
    }
    case.reader("latest_met", last, newest, as_of="event", wait="0 seconds")
    case.reader("sums_met", sums, totals, as_of="event", wait="0 seconds")
    # A key has no two rows of one time, of which the one that comes last would win.
    times = {k: chance.sample(range(60), k=14) for k in "ab"}
    told = [Row(k, START + t, chance.randrange(9), 100 + n) for k in "ab" for n, t in enumerate(times[k])]
    asking = [Row(chance.choice("abc"), START + chance.randrange(60), 0, n) for n in range(30)]
    with drive(case.app) as d:
        # Each row comes up to `late` after its time, and each stream in a pace of its own.
        sides = [sorted(rows, key=lambda r: r.t + chance.randrange(late + 1)) for rows in (told, asking)]
        batches = [(side, rows[i : i + 10]) for side, rows in enumerate(sides) for i in range(0, 30, 10)]
        for side, rows in in_order(chance, batches):
            case.push(d, side, rows)
        for stream in STREAMS:
            d.advance(stream, datetime.fromtimestamp(START + 100, UTC))
        for name, model in models.items():
            model.told = told
            check(d, name, {r.u: model.at(r) for r in asking})
            assert d.late(name) == []


def in_order(chance: Random, batches: list[tuple[int, list[Row]]]) -> list[tuple[int, list[Row]]]:
    """Any order in which the batches of each side stay in theirs."""
    left = [[b for b in batches if b[0] == side] for side in (0, 1)]
    picks = [0] * len(left[0]) + [1] * len(left[1])
    chance.shuffle(picks)
    return [left[side].pop(0) for side in picks]
