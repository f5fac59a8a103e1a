"""migrate, where state can't follow: a table is rebuilt beside the old one from what its stream recorded."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.plan import fill_advice
from keyfold.cli.main import main
from keyfold.engine.log.retention import prune
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration.migrate import Migrated, migrate
from keyfold.engine.operations import unfinished
from keyfold.engine.rebuild.plan import plan_rebuild
from keyfold.engine.storage import audit
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint
from keyfold.testing import drive, shared_session
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
    home, new = AppHome(tmp_path / "shop"), app("amount > 3", "5 seconds")
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
        return migrate(plan.spark, home, wanted, None, lambda _: None, plan.rebuild)

    with killing(FaultPoint.MIGRATION_VIEW_DONE), pytest.raises(Killed):
        migrated()
    with unfinished.held(home):
        pass
    assert {"migrating", "migrating.json"}.isdisjoint(path.name for path in home.path.iterdir())
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


def counted(column: str | None, history: str | None = "30 days", stream: str | None = "7 days") -> kf.App:
    """A table that keeps its changes, of a stream that keeps its rows, with one more column."""
    made = kf.App("shop")
    schema = "customer string, region string, amount int, t timestamp"
    orders = made.stream("orders", kf.rows([]), schema, time="t", history=stream, shared=True)
    more = {} if column is None else {"more": column}
    orders.by("customer").table("totals", {"n": "count(*)", **more}, history=history)
    return made


def test_a_migration_that_ends_history_is_announced_and_a_rebuild_fills_the_new_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with drive(counted(None), home=tmp_path) as d:
        d.push("orders", OLD)
        batch = d.handle.home.table("totals").committed_batch()
    home, new = AppHome(tmp_path / "shop"), counted("sum(amount)")
    found = planned(new, tmp_path, tmp_path / "feeds").changes[0]
    assert found.effects == (
        "more: starts empty",
        f"history: starts over; changes up to batch {batch} belong to the old definition and are dropped",
    )
    (line,) = fill_advice("shop.py", [found])
    assert line.startswith(
        "totals: keyfold rebuild shop.py totals fills more from rows that its streams have"
    )
    # Neither is said where it is not so.
    other = planned(counted("sum(amount)", None, None), tmp_path, tmp_path / "other").changes
    assert other[0].effects == ("more: starts empty",)
    assert fill_advice("shop.py", other) == []

    rebuilt(new, tmp_path, tmp_path / "rebuilt", "totals")
    with drive(new, home=tmp_path) as d:
        assert shown(d, "totals", "customer", "n", "more") == of(grouped(OLD, "customer"), len, sum)
        d.push("orders", NEW)
    # Rows of the stream's log are gone: a rebuild is partial, and says so.
    log = TableLog(home.stream_home("orders").log_files)
    prune(log, 99, newest=(log.newest() or 0) + 9)
    with drive(new, home=tmp_path) as d:
        d.push("orders", NEW)
        batch = d.handle.home.table("totals").committed_batch()
    plan = planned(counted("max(amount)"), tmp_path, tmp_path / "partial")
    (line,) = fill_advice("shop.py", plan.changes)
    assert "keyfold rebuild shop.py totals --partial" in line
    assert "what was folded from earlier rows is lost" in line
    compiled = {one.spec.name: one for one in plan.tables}
    migrate(plan.spark, home, [Migrated(compiled["totals"], plan.changes[0])], None, lambda _: None)
    capsys.readouterr()
    assert main(["state", "history", "totals", "a", "--home", str(tmp_path)]) == 0
    assert f"it started over after batch {batch}, when the table was migrated" in capsys.readouterr().err


SCHEMA = "customer string, region string, amount int, t timestamp"


def written(directory: Path, name: str, found: list[dict[str, Any]]) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("".join(json.dumps(row) + "\n" for row in found))
    return directory


def of_files(live: Path, where: str = "amount >= 0", initial: Any = None) -> kf.App:
    made = kf.App("shop")
    orders = made.stream("orders", kf.files(live), SCHEMA, time="t")
    kept = orders.where(where).by("customer")
    kept.table("totals", n="count(*)", total="sum(amount)", initial=initial)
    made.stream("fixed", kf.rows([{"id": 1}, {"id": 2}]), "id int").by("id").table("ids", n="count(*)")
    return made


def rebuilt(new: kf.App, home: Path, feeds: Path, *tables: str, **options: Any) -> dict[str, Any]:
    plan = planned(new, home, feeds)
    compiled = {one.spec.name: one for one in plan.tables}
    options = {"origin": None, "partial": False, **options}
    pairs = plan_rebuild(plan.spec, plan.stored, [compiled[t] for t in tables], plan.home, **options)
    return migrate(plan.spark, plan.home, pairs, "why not", lambda _: None, plan.rebuild, "rebuild")


def totals(home: AppHome) -> list[tuple[Any, ...]]:
    with home.views.open(read_only=True) as store:
        return sorted((row["customer"], row["n"], row["total"]) for row in store.scan("totals"))


def test_a_table_is_rebuilt_from_its_source_and_its_initial_files_while_it_is_read(tmp_path: Path) -> None:
    home, app_home = tmp_path / "home", AppHome(tmp_path / "home" / "shop")
    live, history = tmp_path / "live", kf.files(written(tmp_path / "old", "a.json", OLD[:6]))
    written(live, "1.json", OLD[6:])
    before = of_files(live, initial=history)
    with before.start(home=home, spark=shared_session()) as handle:
        handle.drain()
        written(live, "2.json", NEW[:6])
        handle.drain()
    whole = OLD + NEW[:6]
    assert totals(app_home) == of(grouped(whole, "customer"), len, sum)
    new, large = of_files(live, "amount > 3", history), [row for row in whole if row["amount"] > 3]
    with killing(FaultPoint.MIGRATION_READY), pytest.raises(Killed):
        rebuilt(new, home, tmp_path / "f1", "totals", "ids")
    # Beside the old table nothing is seen of the new one.
    assert totals(app_home) == of(grouped(whole, "customer"), len, sum)
    # The first time it is reached is when the initial files are in place, beside.
    with killing(FaultPoint.MIGRATION_RECORDED, 2), pytest.raises(Killed):
        rebuilt(new, home, tmp_path / "f2", "totals", "ids")
    assert totals(app_home) == of(grouped(whole, "customer"), len, sum)
    with new.start(home=home, spark=shared_session()) as handle:
        handle.drain()
        assert totals(app_home) == of(grouped(large, "customer"), len, sum)
        written(live, "3.json", NEW[6:])
        handle.drain()
        more = [row for row in OLD + NEW if row["amount"] > 3]
        assert totals(app_home) == of(grouped(more, "customer"), len, sum)
        assert [row["n"] for row in handle.table("ids").rows()] == [1, 1]
    done = [one["what"] for one in audit.entries(app_home.storage)]
    assert done == ["initial", "savepoint", "rebuild"]
    (live / "1.json").unlink()
    with pytest.raises(BadOption, match=r"shop\.totals can't be rebuilt whole") as refused:
        rebuilt(new, home, tmp_path / "f3", "totals")
    assert "orders: 1 of 3 files are gone" in str(refused.value.given)
    with pytest.raises(BadOption, match="which is no longer declared"):
        rebuilt(of_files(live), home, tmp_path / "f4", "totals")
    rebuilt(new, home, tmp_path / "f5", "totals", partial=True)
    rest = [row for row in OLD[:6] + NEW if row["amount"] > 3]
    assert totals(app_home) == of(grouped(rest, "customer"), len, sum)
