"""Random rows in random batches, with crashes and restarts between them, equal a plain fold in Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models import running_model as model
from tests.engine.models.running_model import Event, Model
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

EXACT = {
    "n": "count(*)",
    "known": "count(x)",
    "total": "sum(x)",
    "least": "min(x)",
    "most": "max(x)",
    "middle": "percentile(x, 0.5)",
    "different": "count(distinct x)",
    "seen": "sort_array(collect_set(x))",
    "newest": "max_by(x, u)",
    "positive": "sum(x) filter (where y > 0)",
}
NEAR = {
    "mean": "avg(y)",
    "spread": "stddev(y)",
    "about": "approx_count_distinct(x)",
    "near": "percentile_approx(x, 0.5)",
}
CHAIN = kf.fold(
    zero={"h": "0L"},
    update={"h": "pmod(state.h * 31 + if(x is null, 7, x + 100), 1000003)"},
    result="state.h",
)
SUM = kf.fold(
    zero={"v": "cast(null as bigint)"},
    update={"v": "coalesce(state.v + x, x, state.v)"},
    merge={"v": "coalesce(state.v + other.v, other.v, state.v)"},
)

LIFETIME = 8
# Bounds of the kernel's memory, so low that every batch reaches them.
TINY = {"spark.keyfold.combineEntries": "2", "spark.keyfold.gatherBytes": "500"}


def app() -> kf.App:
    """One table for each way rows can go: merged before the shuffle, one by one, and both kinds together."""
    app = kf.App("random")
    rows = app.stream(
        "rows", kf.rows([]), schema="k string, x bigint, y double, t timestamp, u bigint", time="t"
    )
    rows.by("k").table("aggregates", {**EXACT, **NEAR})
    rows.by("k").table("folds", chain=CHAIN, total=SUM)
    rows.by("k").table("mixed", {"chain": CHAIN, **EXACT, **NEAR, "sum": SUM})
    rows.where("t is not null").by("k").table("kept", n="count(*)", total="sum(x)", ttl=f"{LIFETIME} seconds")
    return app


events = st.builds(
    Event,
    k=st.sampled_from(["a", "b", "c", "d", "longer key", "", None]),
    x=st.none() | st.integers(-9, 30) | st.sampled_from([2**40, -(2**40)]),
    y=st.none() | st.floats(-1e6, 1e6, allow_subnormal=False),
    t=st.none() | st.integers(0, 20),
    u=st.just(0),
)
batches = st.lists(
    st.tuples(
        st.lists(events, min_size=1, max_size=60), st.sampled_from(["", "crash", "restart", "crash twice"])
    ),
    min_size=3,
    max_size=5,
)


@pytest.mark.timeout(900)
@plans(8)
@given(batches, st.booleans())
def test_random_batches_and_crashes_equal_a_plain_fold(
    plan: list[tuple[list[Event], str]], tiny: bool
) -> None:
    expected = Model(LIFETIME)
    number = 0
    with drive(app(), spark=TINY if tiny else None) as d:
        for drawn, then in plan:
            batch = [Event(e.k, e.x, e.y, e.t, number := number + 1) for e in drawn]
            d.push("rows", [row(e) for e in batch])
            expected.add(batch)
            if then == "restart":
                d.restart()
            for _ in range(then.count("crash") * (2 if "twice" in then else 1)):
                d.crash()
        check(d, expected)


def row(event: Event) -> dict[str, Any]:
    at = None if event.t is None else f"2026-01-01T00:00:{event.t:02d}Z"
    return {"k": event.k, "x": event.x, "y": event.y, "u": event.u, "t": at}


def check(d: Driver, expected: Model) -> None:
    for table in ("aggregates", "folds", "mixed"):
        found = {r["k"]: r for r in d.rows(table)}
        assert found.keys() == expected.rows.keys()
        for k, rows in expected.rows.items():
            check_row(found[k], rows)
        assert len(d.rejected(table)) == expected.rejected
        newest = {c["k"]: c for c in d.changes(table)}
        assert {k: {**c, "_op": None} for k, c in newest.items()} == {
            k: {**r, "_op": None} for k, r in found.items()
        }
    assert len(d.rejected("rows")) == expected.rejected
    kept = {r["k"]: (r["n"], r["total"]) for r in d.rows("kept")}
    assert kept == {k: (len(rows), model.total(model.xs(rows))) for k, rows in expected.kept.items()}


def check_row(found: dict[str, Any], rows: list[Event]) -> None:
    values = model.xs(rows)
    exact = model.exact(rows) | {"chain": model.chain(rows), "sum": model.total(values)}
    assert {name: found[name] for name in exact if name in found} == {
        name: value for name, value in exact.items() if name in found
    }
    if "mean" in found:
        assert close(found["mean"], model.mean(model.ys(rows)))
        assert close(found["spread"], model.stddev(model.ys(rows)))
        assert model.may_be_median(found["near"], values)
        assert model.may_be_count(found["about"], len(set(values)))


def close(found: float | None, expected: float | None) -> bool:
    """Equal but for the order of addition."""
    if found is None or expected is None:
        return found is expected
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)
