"""rebuild of a table that others read: all of them or none, also after a kill at any step."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.migration.migrate import migrate
from keyfold.engine.rebuild.groups import with_readers
from keyfold.engine.rebuild.plan import plan_rebuild
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint
from keyfold.testing import shared_session
from tests.engine.recovery.kills import steps
from tests.engine.recovery.test_migrate import planned
from tests.engine.recovery.test_rebuild import written
from tests.engine.recovery.test_rewrite_kills import files, finished, killed

pytestmark = pytest.mark.jvm

Row = dict[str, Any]


def rows(first: int, count: int, factor: int = 1) -> list[Row]:
    return [
        {"customer": "abcd"[i % 4], "region": ("eu", "us")[i % 2], "amount": factor * (i % 5)}
        for i in range(first, first + count)
    ]


def app(live: Path, *tables: str) -> kf.App:
    """Three tables that read each other, and one that reads the stream and the first of them.

    A partition each: every file that a switch copies is a step at which it may be killed.
    """
    made, one = kf.App("shop"), {"partitions": 1}
    schema = "customer string, region string, amount int"
    orders = made.stream("orders", kf.files(live), schema, shared=False)
    totals = orders.by("customer", "region").table("totals", n="count(*)", total="sum(amount)", **one)
    if not tables or "regions" in tables:
        by_region = totals.changes().by("region")
        regions = by_region.table("regions", customers="count(*)", total="sum(total)", **one)
        regions.changes().by(all="1").table("whole", regions="count(*)", total="sum(total)", **one)
    if not tables or "joined" in tables:
        joined = orders.enrich(totals, on=["customer", "region"])
        joined.by("region").table("joined", orders="count(*)", least="min(n)", **one)
    return made


def shown(home: AppHome) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    with home.views.open(read_only=True) as store:
        for table in ("totals", "regions", "whole"):
            found[table] = sorted(
                tuple(v for n, v in row.items() if n[0] != "_") for row in store.scan(table)
            )
        found["joined"] = sorted((row["region"], row["orders"]) for row in store.scan("joined"))
    return found


def recount(found: list[Row]) -> dict[str, list[tuple[Any, ...]]]:
    totals: dict[tuple[str, str], list[int]] = {}
    for row in found:
        totals.setdefault((row["customer"], row["region"]), []).append(row["amount"])
    regions: dict[str, list[list[int]]] = {}
    for (_, region), amounts in totals.items():
        regions.setdefault(region, []).append(amounts)
    return {
        "totals": sorted((*key, len(some), sum(some)) for key, some in totals.items()),
        "regions": sorted((key, len(some), sum(map(sum, some))) for key, some in regions.items()),
        "whole": [(1, len(regions), sum(row["amount"] for row in found))],
        "joined": sorted((key, sum(map(len, some))) for key, some in regions.items()),
    }


def rebuilt(made: kf.App, home: Path, *names: str, readers: bool = True) -> dict[str, Any]:
    plan = planned(made, home, home.parent / "feeds")
    wanted = with_readers(plan.spec, plan.stored, plan.home, names) if readers else list(names)
    some = [one for one in plan.tables if one.spec.name in wanted]
    tables = plan_rebuild(plan.spec, plan.stored, some, plan.home, origin=None, partial=False)
    return migrate(plan.spark, plan.home, tables, None, lambda _: None, plan.rebuild, "rebuild")


@pytest.mark.timeout(600)
def test_a_table_is_rebuilt_with_those_that_read_it_and_a_kill_leaves_all_old_or_all_new(
    tmp_path: Path,
) -> None:
    live, home, made = tmp_path / "live", tmp_path / "home", tmp_path / "made"
    app_home, wrong, right, more = AppHome(home / "shop"), rows(0, 9, 100), rows(0, 9), rows(9, 8)
    written(live, "1.json", wrong)
    with app(live).start(home=made, spark=shared_session()) as handle:
        handle.drain()
        written(live, "2.json", more)
        handle.drain()
    assert shown(AppHome(made / "shop")) == recount(wrong + more)
    shutil.copytree(made, home)
    old = files(home)

    # Alone, a table would not be what others have read, nor could it read what is gone.
    with pytest.raises(BadOption, match="regions, joined have read its changes") as refused:
        rebuilt(app(live), home, "totals", readers=False)
    assert "totals --with-readers" in str(refused.value.hint)
    with pytest.raises(BadOption, match="reads the table totals, whose earlier changes are gone"):
        rebuilt(app(live), home, "regions")
    with pytest.raises(BadOption, match="joined has read its changes, and the app no longer declares it"):
        rebuilt(app(live, "regions"), home, "totals")
    assert files(home) == old

    # The file is put right; before the switch is recorded, a kill leaves the old tables.
    written(live, "1.json", right)

    def act(at: Path) -> None:
        rebuilt(app(live), at, "totals")

    for last, point in ((2, None), (None, FaultPoint.MIGRATION_READY)):
        killed(made, home, act, last, point)
        finished(home)
        assert shown(app_home) == recount(wrong + more)
        assert {n: c for n, c in files(home).items() if "audit" not in n} == old

    # From then on all of them become the new ones, whatever the kill was in the middle of.
    after = tmp_path / "recorded"
    shutil.copytree(killed(made, home, act, point=FaultPoint.MIGRATION_RECORDED), after)
    assert shown(app_home) == recount(wrong + more)
    with steps() as counted:
        finished(home)
    new = files(home)
    assert shown(app_home) == recount(right + more)
    for last in counted.turns():
        killed(after, home, finished, last)
        finished(home)
        assert files(home) == new, f"after step {last}, {counted.kinds[last]}"

    # They continue from there, together.
    done = audit.entries(app_home.storage)[-1]
    assert (done["what"], done["tables"]) == ("rebuild", ["totals", "regions", "whole", "joined"])
    assert done["effects"]["regions"] == ["changes of totals, which is rebuilt with it"]
    with app(live).start(home=home, spark=shared_session()) as handle:
        handle.drain()
        assert shown(app_home) == recount(right + more)
        written(live, "3.json", more)
        handle.drain()
        assert shown(app_home) == recount(right + more + more)
