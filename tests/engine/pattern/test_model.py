"""Random patterns over random rows, with crashes and restarts, give what brute force finds.

A plan is made from one drawn number, since the few examples that there is time for must all be rich ones:
several patterns in one app, and many keys, which cost nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models.pattern_model import (
    Chain,
    Condition,
    Either,
    Key,
    Match,
    No,
    Repeat,
    Row,
    Stream,
    Tree,
    matches,
)
from tests.engine.models.pattern_random import Maker, declared, rows_of_key
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
SCHEMA = "k string, c string, v bigint, u int, t timestamp"
LATE = 6
SPAN = 40
Shown = tuple[Any, ...]


def at(t: int) -> datetime:
    return datetime.fromtimestamp(START + t, UTC)


def shown(row: Row) -> dict[str, Any]:
    return {"k": row.k, "c": row.c, "v": row.v, "u": row.u, "t": at(row.t)}


def has_no(tree: Tree) -> bool:
    if isinstance(tree, Chain):
        return any(has_no(part) for _, part in tree.parts)
    if isinstance(tree, Either):
        return any(has_no(option) for option in tree.options)
    return isinstance(tree, No) or (isinstance(tree, Repeat) and has_no(tree.body))


def conditions(tree: Tree) -> list[Condition]:
    if isinstance(tree, Chain):
        return [c for _, part in tree.parts for c in conditions(part)]
    if isinstance(tree, Either):
        return [c for option in tree.options for c in conditions(option)]
    if isinstance(tree, Repeat):
        return conditions(tree.body) + ([tree.until] if tree.until else [])
    return [tree.condition]


@dataclass
class Case:
    """A pattern and how it is matched."""

    table: str
    tree: Tree
    steps: list[str]
    within: int
    skip: str
    timeouts: bool
    arrival: bool = False

    @classmethod
    def random(cls, chance: Random, table: str, arrival: bool) -> Case:
        maker = Maker(chance)
        tree = maker.tree()
        while arrival and has_no(tree):
            tree = maker.tree()
        to = f"{chance.choice(['to_first', 'to_last'])}({chance.choice(maker.names)})"
        skip = chance.choice(["past_last", "next", "none", "none", to])
        # By arrival the time of a match is over when a row says so, which is not what is tried here.
        within = 10 * SPAN if arrival else chance.choice([5, 10, 20])
        timeouts = not arrival and chance.random() < 0.3
        return cls(table, tree, maker.names, within, skip, timeouts, arrival)

    def declare(self, rows: kf.Stream) -> None:
        rows.by("k").pattern(
            self.table,
            declared(self.tree),
            within=f"{self.within} seconds",
            skip=self.skip,
            order="arrival" if self.arrival else "event",
            timeouts=self.timeouts,
            returns={f"of_{step}": f"{step}.u" for step in self.steps},
        )

    def expected(self, stream: Stream) -> Counter[Shown]:
        keys = stream.all() if self.arrival else stream.settled()
        watermark = -SPAN if self.arrival else stream.watermark
        return Counter(
            self._shown(rows, match)
            for rows in keys.values()
            for match in matches(rows, self.tree, self.within, self.skip, self.timeouts, watermark)
        )

    def overtaken(self, stream: Stream) -> int:
        """How many matches that are given began before another and ended after it, which they rule out."""
        if self.skip in ("none", "next"):
            return 0
        keys = (stream.all() if self.arrival else stream.settled()).values()
        return sum(map(self._overtaken, keys))

    def _overtaken(self, rows: list[Row]) -> int:
        key = Key(rows, self.tree, self.within)
        every = [m.rows for at in range(len(rows)) for m in key.completed(at)]
        given = [m.rows for m in matches(rows, self.tree, self.within, self.skip) if not m.timed_out]
        return sum(any(m[0] < o[0] and o[-1] < m[-1] and o not in given for o in every) for m in given)

    def late(self, stream: Stream) -> tuple[list[int], list[int]]:
        """Rows that must be late, and that may be: one that no condition is true for may be left out."""
        late = [] if self.arrival else [row for row in stream.too_late if row.k is not None]
        fitting = [row.u for row in late if any(c.test(row, ()) for c in conditions(self.tree))]
        return fitting, [row.u for row in late]

    def _shown(self, rows: list[Row], match: Match) -> Shown:
        taken = (tuple(rows[i].u for i, _, name in match.taken if name == step) for step in self.steps)
        first = rows[match.rows[0]]
        return first.k, first.t, match.ended, match.timed_out, *taken

    def found(self, d: Driver) -> Counter[Shown]:
        return Counter(
            (
                row["k"],
                *(round(row[column].timestamp()) - START for column in ("started", "ended")),
                row.get("timed_out", False),
                *(tuple(row[f"of_{step}"]) for step in self.steps),
            )
            for row in d.rows(self.table)
        )


def arriving(chance: Random, keys: int) -> list[Row]:
    """Rows of all keys, most of them not later than is waited for."""
    rows = [
        row
        for n in range(keys)
        for row in rows_of_key(chance, None if n == 0 else f"k{n}", chance.randrange(3, 9), SPAN)
    ]
    delays = [chance.randrange(LATE + (20 if chance.random() < 0.1 else 0)) for _ in rows]
    order = sorted(range(len(rows)), key=lambda i: rows[i].t + delays[i])
    return [replace(rows[i], u=n) for n, i in enumerate(order)]


def batches(chance: Random, rows: list[Row], count: int) -> Iterable[list[Row]]:
    cuts = sorted(chance.sample(range(1, len(rows)), k=count - 1))
    return (rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True))


@plans(4)
@given(seed=st.integers(0, 2**32))
def test_random_patterns_give_what_brute_force_finds(seed: int) -> None:
    chance = Random(f"patterns {seed}")
    coming = arriving(chance, 25)
    cases = [rich(chance, f"t{n}", coming, arrival=n == 0, overtaken=n < 3) for n in range(6)]
    app = kf.App("random")
    rows = app.stream("rows", kf.rows([]), SCHEMA, time="t", late=f"{LATE} seconds")
    for case in cases:
        case.declare(rows)
    stream = Stream(LATE)
    thens = chance.sample(["", "restart", "crash"], k=3)
    with drive(app) as d:
        for batch, then in zip(batches(chance, coming, 3), thens, strict=True):
            d.push("rows", [shown(r) for r in batch])
            stream.push(batch)
            if then:
                getattr(d, then)()
            check(d, cases, stream)
        d.advance("rows", at(3 * SPAN))
        stream.advance(3 * SPAN)
        check(d, cases, stream)
        for case in cases:
            late = sorted(json.loads(r["raw"])["u"] for r in d.late(case.table))
            least, most = case.late(stream)
            assert set(least) <= set(late) <= set(most), f"late {late}, not {least} to {most}: {words(case)}"
            assert len(set(late)) == len(late), f"late {late} {words(case)}"


def rich(chance: Random, table: str, coming: list[Row], arrival: bool, overtaken: bool) -> Case:
    """A pattern of which there are matches, but not so many that they take the time of others.

    If asked for, one for which it matters that the earliest beginning wins.
    """
    stream = Stream(LATE)
    stream.push(coming)
    stream.advance(3 * SPAN)
    while True:
        case = Case.random(chance, table, arrival)
        if 3 <= case.expected(stream).total() <= 300 and (not overtaken or case.overtaken(stream)):
            return case


def check(d: Driver, cases: list[Case], stream: Stream) -> None:
    for case in cases:
        found, expected = case.found(d), case.expected(stream)
        differing = {"too much": found - expected, "too little": expected - found}
        assert found == expected, f"{differing} of {words(case)}"


def words(case: Case) -> str:
    return f"{declared(case.tree)!r} within {case.within} skip {case.skip} {case}"
