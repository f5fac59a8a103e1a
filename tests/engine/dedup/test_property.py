"""Random rows through distinct, with late ones, crashes and restarts, equal brute force.

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
from tests.engine.models.dedup_model import Distinct, Row
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())


class Case:
    """Three tables of one stream: kept rows, kept rows by windows, and what is left by two columns."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.number = chance, 0
        late = chance.choice([0, 4, 9])
        spans = [chance.choice([1, 3, 8, 20]) for _ in range(3)]
        columns: list[tuple[str, ...]] = [("k",), ("k",), chance.choice([("k", "g"), ("g",)])]
        self.names = ("rows_kept", "windows", "pairs")
        self.models = [Distinct(*options, late) for options in zip(columns, spans, strict=True)]
        self.app = kf.App("random")
        rows = self.app.stream(
            "rows", kf.rows([]), "k string, g int, u int, t timestamp", time="t", late=f"{late} seconds"
        )
        first, second, third = (
            rows.distinct(*names, within=f"{span} seconds", record_duplicates=name != "windows")
            for name, names, span in zip(self.names, columns, spans, strict=True)
        )
        first.by(all="'all'").table("rows_kept", us="collect_list(u)")
        second.by("k").tumbling("7 seconds").table("windows", us="collect_list(u)")
        third.by(all="'all'").table("pairs", us="collect_list(u)", ttl="1 day")

    def batch(self, moment: int) -> list[Row]:
        """Rows around a moment, out of order, some of them without a key."""
        found = []
        for _ in range(self.chance.randrange(1, 12)):
            self.number += 1
            k = self.chance.choice(["a", "a", "b", "c", None])
            t = moment + self.chance.randrange(-14, 7)
            found.append(Row(k, self.chance.randrange(2), t, self.number))
        return found

    def check(self, d: Driver) -> None:
        for name, model in zip(self.names, self.models, strict=True):
            found = Counter(u for row in d.rows(name) for u in row["us"])
            assert found == Counter(r.u for r in model.kept), name

    def check_aside(self, d: Driver) -> None:
        for name, model in zip(self.names, self.models, strict=True):
            assert numbers(d.late(name)) == Counter(r.u for r in model.too_late), name
            assert numbers(d.rejected(name)) == Counter(r.u for r in model.rejected), name
            assert d.handle.status()["tables"][name]["duplicates"] == len(model.duplicates), name
            listed = [] if name == "windows" else model.duplicates
            assert numbers(d.duplicates(name)) == Counter(r.u for r in listed), name

    def check_state(self, d: Driver) -> None:
        source = d.handle.spark.read.format("statestore").option("stateVarName", "state")
        for name, model in zip(self.names, self.models, strict=True):
            checkpoint = str(d.handle.home.table(name).checkpoint)
            assert source.option("operatorId", 1).load(checkpoint).count() == model.remembered(), name


def numbers(found: list[dict[str, Any]]) -> Counter[int]:
    return Counter(json.loads(row["raw"])["u"] for row in found)


def shown(row: Row) -> dict[str, Any]:
    return {"k": row.k, "g": row.g, "u": row.u, "t": datetime.fromtimestamp(row.t, UTC)}


@plans(3)
@given(seed=st.integers(0, 2**32))
def test_random_batches_and_crashes_equal_brute_force(seed: int) -> None:
    chance = Random(f"distinct {seed}")
    case = Case(chance)
    moment = START
    with drive(case.app) as d:
        for then in chance.sample(["", "", "restart", "crash"], k=4):
            moment += chance.randrange(2, 12)
            batch = case.batch(moment)
            d.push("rows", [shown(r) for r in batch])
            if then:
                getattr(d, then)()
            for model in case.models:
                model.push(batch)
            case.check(d)
        case.check_state(d)
        case.check_aside(d)
