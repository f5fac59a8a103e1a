"""Random rows on both sides of a join, with crashes and restarts, equal brute force for every `how`.

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
from tests.engine.models.enrich_model import Row
from tests.engine.models.join_model import Join
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
SCHEMA = "k string, v int, u int, side string, t timestamp"
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")


def s(seconds: int) -> str:
    return f"{seconds} seconds"


class Case:
    """Two streams, or one that is joined with itself, a table of all that their join gives, and its model."""

    def __init__(self, how: str, chance: Random) -> None:
        self.chance, self.number = chance, 0
        together = chance.random() < 0.4
        late = (chance.choice([0, 4]),) * 2 if together else (chance.choice([0, 3]), chance.choice([0, 6]))
        before, after = chance.choice([(5, 5), (0, 8), (6, 2), (0, 0)])
        floor = chance.choice([None, 0])
        self.model = Join(how, before, after, late, together, floor)
        self.app = kf.App("random")
        left, right = self._sides(together, late)
        on = "k"
        if floor is not None:
            right = right.select("ru", "rv", key="k")
            on = f"left.k = right.key and left.lv > {floor} and left.lv <> right.rv"
        pair = (
            "struct(lu, ru)" if how not in ("left_semi", "left_anti") else "struct(lu, cast(null as int) ru)"
        )
        joined = left.join(right, on=on, within=(s(before), s(after)), how=how)
        joined.by(all="'all'").table("t", pairs=f"collect_list({pair})")

    def _sides(self, together: bool, late: tuple[int, int]) -> tuple[kf.Stream, kf.Stream]:
        def stream(name: str, seconds: int) -> kf.Stream:
            return self.app.stream(name, kf.rows([]), schema=SCHEMA, time="t", late=s(seconds))

        if together:
            rows = stream("rows", late[0])
            left, right = rows.where("side = 'l'"), rows.where("side = 'r'")
        else:
            left, right = stream("left_rows", late[0]), stream("right_rows", late[1])
        return left.select("k", lu="u", lv="v"), right.select("k", ru="u", rv="v")

    def rows(self, moment: int) -> list[Row]:
        """Rows around a moment, out of order, some of them without a key."""
        found = []
        for _ in range(self.chance.randrange(1, 7)):
            self.number += 1
            k = self.chance.choice(["a", "a", "b", None])
            t = moment + self.chance.randrange(-14, 7)
            found.append(Row(k, t, self.chance.randrange(-1, 4), self.number))
        return found

    def push(self, d: Driver, moment: int) -> None:
        sides = self.rows(moment), self.rows(moment)
        if self.model.together:
            d.push("rows", [*(shown(r, "l") for r in sides[0]), *(shown(r, "r") for r in sides[1])])
            self.model.push(*sides)
            return
        side = self.chance.randrange(2)
        d.push(("left_rows", "right_rows")[side], [shown(r, "lr"[side]) for r in sides[side]])
        self.model.push(**{("left", "right")[side]: sides[side]})

    def advance(self, d: Driver, moment: int) -> None:
        streams = ["rows"] if self.model.together else ["left_rows", "right_rows"]
        for stream in streams:
            d.advance(stream, datetime.fromtimestamp(moment, UTC))
        for side in (0, 1):
            self.model.advance(side, moment)

    def check(self, d: Driver) -> None:
        found = Counter((p["lu"], p["ru"]) for row in d.rows("t") for p in row["pairs"])
        assert found == self.model.result()

    def check_aside(self, d: Driver) -> None:
        """Late rows are all there, Spark has dropped none, and each row was read once per side."""
        late = d.late("t")
        assert Counter(json.loads(r["raw"])["u"] for r in late) == Counter(self.model.too_late)
        assert d.rejected("t") == []
        progress = [json.loads(p.json) for p in d.handle.queries["t"].recentProgress]
        assert sum(o["numRowsDroppedByWatermark"] for p in progress for o in p["stateOperators"]) == 0


def shown(row: Row, side: str) -> dict[str, Any]:
    return {"k": row.k, "v": row.v, "u": row.u, "side": side, "t": datetime.fromtimestamp(row.t, UTC)}


@pytest.mark.parametrize("how", HOWS)
@plans(2)
@given(seed=st.integers(0, 2**32))
def test_random_batches_and_crashes_equal_brute_force(how: str, seed: int) -> None:
    chance = Random(f"{how} {seed}")
    case = Case(how, chance)
    moment = START
    with drive(case.app) as d:
        for then in chance.sample(["", "", "restart", "crash"], k=4):
            moment += chance.randrange(3, 10)
            case.push(d, moment)
            if then:
                getattr(d, then)()
                getattr(case.model, then)()
            case.check(d)
        case.advance(d, moment + 60)
        case.check(d)
        case.check_aside(d)
