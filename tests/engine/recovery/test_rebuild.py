"""migrate, where state can't follow: a table is rebuilt beside the old one from what its stream recorded."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.savepoint import unfinished
from keyfold.engine.savepoint.migrate import Migrated, migrate
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint
from keyfold.testing import drive
from tests.engine.recovery.test_migrate import (
    NEW,
    OLD,
    Killed,
    grouped,
    killing,
    of,
    planned,
    shown,
    windowed,
)

pytestmark = pytest.mark.jvm


def app(where: str, size: str, amount: str = "int") -> kf.App:
    made = kf.App("shop")
    schema = f"customer string, region string, amount {amount}, t timestamp"
    orders = made.stream("orders", kf.rows([]), schema, time="t", history="7 days")
    orders.where(where).by("customer").table("totals", n="count(*)", total="sum(amount)")
    orders.by("region").tumbling(size).table("windows", n="count(*)")
    return made


def test_another_filter_and_window_are_rebuilt_from_recorded_rows(tmp_path: Path) -> None:
    with drive(app("amount > 0", "10 seconds"), home=tmp_path) as d:
        d.push("orders", OLD[:6])
        d.push("orders", OLD[6:])
    place, new = AppHome(tmp_path / "shop"), app("amount > 3", "5 seconds")
    plan = planned(new, tmp_path, tmp_path / "feeds")
    assert [one.kind for one in plan.changes] == ["migratable", "migratable"]
    assert "rebuilt from rows that its streams have recorded since" in plan.changes[0].effects[-1]
    # What a stream has recorded keeps its types.
    typed = planned(app("amount > 0", "10 seconds", "bigint"), tmp_path, tmp_path / "typed", "totals")
    assert (typed.changes[0].table, typed.changes[0].kind) == ("orders", "incompatible")
    assert typed.changes[0].effects == ("amount: int on disk, bigint now",)
    compiled = {one.spec.name: one for one in plan.tables}
    wanted = [Migrated(compiled[one.table], one) for one in plan.changes]

    def migrated() -> dict[str, Any]:
        return migrate(plan.spark, place, wanted, None, lambda _: None, plan.rebuild)

    with killing(FaultPoint.MIGRATION_VIEW_DONE), pytest.raises(Killed):
        migrated()
    with unfinished.held(place):
        pass
    assert {"migrating", "migrating.json"}.isdisjoint(path.name for path in place.path.iterdir())
    since = plan.changes[0].rebuilt
    assert since is not None

    def check(d: Any, rows: list[dict[str, Any]]) -> None:
        large = [row for row in rows if row["amount"] > 3]
        assert shown(d, "totals", "customer", "n", "total") == of(grouped(large, "customer"), len, sum)
        assert shown(d, "windows", "region", "window_start", "n") == of(windowed(rows, "region", 5, 5), len)

    with drive(new, home=tmp_path) as d:
        recorded = KnownSince(datetime.fromisoformat(since), None)
        assert d._handle.table("totals").since == {"n": recorded, "total": recorded}
        check(d, OLD)
        d.push("orders", NEW)
        check(d, OLD + NEW)
