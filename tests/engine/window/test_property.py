"""Random rows in random batches, with crashes and restarts between them, equal brute force for every kind.

A plan is made from one drawn number, since the few examples that there is time for must all be rich ones:
the first that hypothesis draws of lists are the simplest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models import window_model as model
from tests.engine.models.strategies import plans
from tests.engine.models.window_model import Row, Step, Windows

pytestmark = pytest.mark.jvm

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
SQUARES = kf.fold(
    zero={"s": "0L"},
    update={"s": "state.s + coalesce(v * v, 0L)"},
    merge={"s": "state.s + other.s"},
)
# Without merge, and dependent on the order of rows.
CHAIN = kf.fold(zero={"h": "0L"}, update={"h": "pmod(state.h * 31 + if(v is null, 7, v + 100), 1000003)"})
AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "least": "min(v)",
    "most": "max(v)",
    "items": "collect_list(v)",
}
# Bounds of the kernel's memory, so low that every batch reaches them.
TINY = {"spark.keyfold.combineEntries": "2", "spark.keyfold.gatherBytes": "500"}
GAPS = (2, 5, 9)
GAP = " ".join(["case g", *(f"when {g} then interval '{g}' second" for g in GAPS), "end"])


def s(seconds: int) -> str:
    return f"{seconds} seconds"


Kind = Callable[[Random, Any, dict[str, Any]], tuple[Any, Windows]]


def tumbling(chance: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    size, offset = chance.choice([(10, 0), (10, 3), (7, 0), (7, 5)])
    return rows.tumbling(s(size), offset=s(offset)), model.Aligned(size, offset=offset, **options)


def sliding(chance: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    size, every, offset = chance.choice([(10, 4, 0), (12, 3, 1), (10, 4, 3), (9, 2, 0), (6, 6, 0), (5, 3, 2)])
    declared = rows.sliding(s(size), every=s(every), offset=s(offset))
    return declared, model.Aligned(size, every, offset, **options)


def session(chance: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    gap = chance.choice([2, 4, 6])
    return rows.session(s(gap)), model.Sessions(gap, **options)


def session_by_row(_: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    return rows.session(GAP), model.Sessions(None, **options)


def rolling(chance: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    size = chance.choice([5, 12])
    return rows.rolling(s(size)), model.Rolling(size, **options)


def rolling_panes(chance: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    size, every = chance.choice([(12, 4), (10, 4), (6, 6)])
    return rows.rolling(s(size), every=s(every)), model.Rolling(size, every, **options)


def last(chance: Random, rows: Any, options: dict[str, Any]) -> tuple[Any, Windows]:
    n = chance.choice([1, 3, 5])
    return rows.last(n), model.Last(n, **options)


WINDOWS = (tumbling, sliding, session, session_by_row)
# Where rows reach a state one by one, in order, and no states are merged.
ORDERED = (tumbling, rolling, last)


class Case:
    """One table, its model, and the comparison of both."""

    def __init__(self, kind: Kind, chance: Random) -> None:
        late = chance.choice([0, 3, 8])
        self.chance, self.closes = chance, kind in WINDOWS
        self.app = kf.App("random")
        rows = self.app.stream(
            "rows",
            kf.rows([]),
            schema="k string, v bigint, g int, u bigint, t timestamp",
            time="t",
            late=s(late),
        )
        options: dict[str, Any] = {}
        if self.closes:
            options = {
                "emit": chance.choice(["changes", "changes", "final"]),
                "keep": chance.choice([None, 6, 15]),
            }
        keyed, self.model = kind(chance, rows.by("k"), {"late": late, **options})
        if options.get("keep"):
            options["keep"] = s(options["keep"])
        # Without folds rows are merged before the shuffle, with one they reach the state one by one.
        folds = {"squares": SQUARES, **({"chain": CHAIN} if kind in ORDERED else {})}
        self.columns = {**AGGREGATES, **chance.choice([{}, folds])}
        keyed.table("t", self.columns, **options)
        self.late: Counter[Any] = Counter()
        self.number = 0

    def batch(self, base: int) -> list[Row]:
        """Rows around a moment, out of order, many at the same time."""
        found = []
        for _ in range(self.chance.randrange(1, 14)):
            self.number += 1
            time = base + self.chance.randrange(-16, 7)
            value = self.chance.choice([None, *range(-4, 9)])
            found.append(Row(self.chance.choice("aabc"), time, value, self.number, self.chance.choice(GAPS)))
        return found

    def check(self, d: Driver, step: Step) -> None:
        """The changes of one step, and the view after it."""
        view = {self._found(row) for row in d.rows("t")}
        assert view == {self._expected(place, rows) for place, rows in self.model.view.items()}
        found = Counter((c["_op"], self._found(c, c["_op"] != "delete")) for c in d.changes("t"))
        for row in view:
            if row[0] in step.idle:
                found.pop(("upsert", row), None)
        assert found == Counter(
            (op, self._expected(place, rows, op != "delete")) for op, place, rows in step.changes
        )
        self.late.update((row.u, tuple(sorted(missed))) for row, missed in step.late)

    def check_late(self, d: Driver) -> None:
        late = d.late("t")
        found = Counter((json.loads(r["raw"])["u"], self._missed(r)) for r in late)
        assert found == self.late
        if self.closes:
            assert all(r["missed"] == len(r["windows"]) for r in late)
        assert d.handle.status()["tables"]["t"]["late"] == self.late.total()
        assert d.rejected("t") == []

    def _missed(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(sorted(bounds(w) for w in row["windows"])) if self.closes else ()

    def _found(self, row: dict[str, Any], values: bool = True) -> tuple[Any, ...]:
        shown = {**row, "items": sorted(row["items"] or ())} if values else {}
        return row["k"], bounds(row) if self.closes else (), self._values(shown)

    def _expected(self, place: model.Place, rows: Any, values: bool = True) -> tuple[Any, ...]:
        shown = {**model.aggregates(rows), "chain": model.chain(rows)} if values else {}
        return *place, self._values(shown)

    def _values(self, shown: dict[str, Any]) -> tuple[Any, ...]:
        return tuple((n, tuple(shown[n]) if n == "items" else shown[n]) for n in self.columns if shown)


def bounds(row: dict[str, Any]) -> tuple[int, int]:
    return int(row["window_start"].timestamp()), int(row["window_end"].timestamp())


def shown(row: Row) -> dict[str, Any]:
    return {"k": row.k, "v": row.v, "g": row.gap, "u": row.u, "t": datetime.fromtimestamp(row.t, UTC)}


@pytest.mark.parametrize(
    "kind",
    [tumbling, sliding, session, session_by_row, rolling, rolling_panes, last],
    ids=lambda k: k.__name__,
)
@plans(5)
@given(seed=st.integers(0, 2**32))
def test_random_batches_and_crashes_equal_brute_force(kind: Kind, seed: int) -> None:
    chance = Random(seed)
    case = Case(kind, chance)
    moment = START
    with drive(case.app, spark=chance.choice([None, TINY])) as d:
        for then in ["", *chance.choices(["", "advance", "restart", "crash", "crash twice"], k=3)]:
            moment += chance.randrange(2, 14)
            batch = case.batch(moment)
            d.push("rows", [shown(r) for r in batch])
            again(d, then)
            case.check(d, case.model.push(batch))
            if then == "advance":
                moment += chance.randrange(4, 20)
                d.advance("rows", datetime.fromtimestamp(moment, UTC))
                case.check(d, case.model.advance(moment))
        d.advance("rows", datetime.fromtimestamp(moment + 60, UTC))
        again(d, chance.choice(["", "crash"]))
        case.check(d, case.model.advance(moment + 60))
        case.check_late(d)


def again(d: Driver, then: str) -> None:
    if then == "restart":
        d.restart()
    for _ in range(then.count("crash") * (2 if "twice" in then else 1)):
        d.crash()
