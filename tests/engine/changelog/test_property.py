"""Random rows in random batches, with crashes and restarts: tables of a table's changes equal brute force.

A plan is made from one drawn number, as in the property test of windows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models import change_model as model
from tests.engine.models.change_model import Item, Model, grouped
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
LIFETIME = 12
SQUARES = kf.fold(
    zero={"s": "0L"},
    update={"s": "state.s + coalesce(x * x, 0L)"},
    retract={"s": "state.s - coalesce(x * x, 0L)"},
)
ORDER = "x desc nulls last, id"
# Bounds of the kernel's memory, so low that every batch reaches them.
TINY = {"spark.keyfold.combineEntries": "2", "spark.keyfold.gatherBytes": "500"}


def declared() -> kf.App:
    app = kf.App("random")
    rows = app.stream(
        "rows", kf.rows([]), schema="id string, g string, x bigint, u bigint, t timestamp", time="t"
    )
    items = rows.by("id").latest().table("items")
    totals = rows.by("id").table("totals", total="sum(x)", n="count(*)", ttl=f"{LIFETIME} seconds")
    rows.by("g").top(3, by=ORDER).table("first", id="id", x="x", u="u")
    shown = items.changes().where("g is not null")
    sums = shown.by("g").table(
        "sums",
        n="count(*)",
        known="count(x)",
        total="sum(x)",
        mean="avg(x)",
        positive="sum(x) filter (where x > 0)",
    )
    extremes = shown.by("g").table(
        "extremes",
        least="min(x)",
        most="max(x)",
        different="count(distinct x)",
        xs="array_sort(collect_list(x))",
        squares=SQUARES,
    )
    shown.by("g").top(2, by=ORDER).table("leaders", id="id", x="x")
    mixed = totals.changes().select("n", name="id", value="total", kind="'totals'")
    mixed.union(extremes.changes().select(name="g", value="most", n="different", kind="'extremes'")).by(
        "kind"
    ).table("mixed", n="count(*)", total="sum(value)", ns="sum(n)", squares="sum(value * value)")
    sums.changes().by("n").table("sizes", groups="count(*)", most="max(total)", total="sum(total)")
    return app


class Case:
    """The model beside the driver, and the comparison of both."""

    def __init__(self, seed: int) -> None:
        self.chance, self.model, self.number, self.moment = Random(seed), Model(LIFETIME), 0, START

    def batch(self) -> list[Item]:
        chance = self.chance
        self.moment += chance.randrange(1, 12)
        found = []
        for _ in range(chance.randrange(1, 12)):
            self.number += 1
            g = chance.choice([None, "a", "a", "b", "c"])
            x = chance.choice([None, *range(-4, 6)])
            t = self.moment + chance.randrange(-6, 4)
            found.append(Item(chance.choice("123456"), g, x, t, self.number))
        return found

    def push(self, d: Driver) -> None:
        batch = self.batch()
        d.push("rows", [{**vars(i), "t": datetime.fromtimestamp(i.t, UTC)} for i in batch])
        self.model.add(batch)

    def check(self, d: Driver) -> None:
        shown, seen = self.model.shown, self.model
        groups = grouped(shown, lambda i: i.g)
        sums = {g: model.sums(items) for g, items in groups.items()}
        extremes = {g: model.extremes(items) for g, items in groups.items()}
        totals = {id: (model.total(model.xs(items)), len(items)) for id, items in seen.recent.items()}
        sizes = grouped(sums.values(), lambda s: s[0])
        assert table(d, "items") == {i.id: (i.g, i.x, i.u) for i in seen.newest.values()}
        assert table(d, "sums") == sums
        assert table(d, "extremes") == extremes
        assert table(d, "totals") == totals
        assert table(d, "sizes") == {
            n: (
                len(each),
                max((s[2] for s in each if s[2] is not None), default=None),
                known(s[2] for s in each),
            )
            for n, each in sizes.items()
        }
        assert table(d, "mixed") == {
            kind: (
                len(rows),
                known(v for v, _ in rows),
                sum(n for _, n in rows),
                known(square(v) for v, _ in rows),
            )
            for kind, rows in (
                ("totals", list(totals.values())),
                ("extremes", [(e[1], e[2]) for e in extremes.values()]),
            )
            if rows
        }
        assert ranks(d, "leaders", "id", "x") == {
            g: [(i.id, i.x) for i in model.ranked(items, 2)] for g, items in groups.items()
        }
        assert ranks(d, "first", "id", "x", "u") == {
            g: [(i.id, i.x, i.u) for i in model.ranked(items, 3)]
            for g, items in grouped((i for i in seen.all if i.g is not None), lambda i: i.g).items()
        }


def known(values: Any) -> int | None:
    return model.total([v for v in values if v is not None])


def square(value: int | None) -> int | None:
    return None if value is None else value * value


def table(d: Driver, name: str) -> dict[Any, tuple[Any, ...]]:
    rows = [[v for n, v in r.items() if n != "t"] for r in d.rows(name)]
    return {row[0]: tuple(row[1:]) for row in rows}


def ranks(d: Driver, name: str, *columns: str) -> dict[Any, list[tuple[Any, ...]]]:
    found = grouped(d.rows(name), lambda r: r["g"])
    for rows in found.values():
        assert sorted(r["rank"] for r in rows) == list(range(1, len(rows) + 1))
    return {
        g: [tuple(r[c] for c in columns) for r in sorted(rows, key=lambda r: r["rank"])]
        for g, rows in found.items()
    }


@plans(2)
@given(seed=st.integers(0, 2**32))
def test_tables_of_changes_equal_brute_force_through_crashes_and_restarts(seed: int) -> None:
    case = Case(seed)
    with drive(declared(), spark=case.chance.choice([None, TINY])) as d:
        # A start of eight queries costs more than all the rest.
        for then in ["", *case.chance.sample(["", "", "restart", "crash"], k=4)]:
            case.push(d)
            {"restart": d.restart, "crash": d.crash}.get(then, lambda: None)()
            case.check(d)
        # Rows without a group are rejected where it is the key, and nothing else is.
        assert [len(d.rejected(t)) for t in ("items", "totals", "sums", "extremes", "leaders", "mixed")] == [
            0
        ] * 6
        assert len(d.rejected("first")) == sum(i.g is None for i in case.model.all)
