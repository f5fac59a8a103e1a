"""migrate: state that follows a changed definition, recounted from the input, and what kills leave."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.plan import AppPlan, compiled_plan
from keyfold.engine import session
from keyfold.engine.migration.migrate import Migrated, migrate
from keyfold.engine.operations import unfinished
from keyfold.engine.rescale import rescale
from keyfold.engine.savepoint import restore
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadExpression, RunError, StateMismatch
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.plan.nodes import AppSpec
from keyfold.settings import load
from keyfold.testing import Driver, drive, shared_session

pytestmark = pytest.mark.jvm

Row = dict[str, Any]
Groups = dict[tuple[Any, ...], list[int]]


def rows(first: int, count: int) -> list[Row]:
    """Rows of four customers in two regions, a second apart."""
    return [
        {"customer": "abcd"[i % 4], "region": "xy"[i % 2], "amount": i % 7, "t": f"2026-01-01 00:00:{i:02}"}
        for i in range(first, first + count)
    ]


OLD, NEW = rows(0, 12), rows(12, 12)


def orders(app: kf.App, amount: str) -> kf.Stream:
    schema = f"customer string, region string, amount {amount}, t timestamp"
    return app.stream("orders", kf.rows([]), schema, time="t")


def before() -> kf.App:
    app = kf.App("shop")
    stream = orders(app, "int")
    keyed = stream.by("customer", "region")
    totals = keyed.table("totals", n="count(*)", total="sum(amount)", top="max(amount)")
    totals.changes().by("region").table("regions", customers="count(*)")
    keyed.table("merged", n="count(*)", kinds="count(distinct customer)", mean="avg(amount)", ttl="1 day")
    fold = kf.fold(
        zero={"n": "0L", "s": "0L"}, update={"n": "state.n + 1", "s": "state.s + amount"}, result="state.s"
    )
    keyed.table("folded", spent=fold)
    windows = stream.by("customer").tumbling("10 seconds")
    windows.table("closing", n="count(*)", total="sum(amount)")
    windows.table("keeping", n="count(*)", keep="1 hour")
    stream.by("customer").session("5 seconds").table("visits", n="count(*)", emit="final")
    keyed.sliding("20 seconds", every="10 seconds").table("sliding", n="count(*)", total="sum(amount)")
    return app


def after(cents: str = "100 * state.s") -> kf.App:
    app = kf.App("shop")
    stream = orders(app, "bigint")
    keyed = stream.by("customer", "region")
    columns = {"mean": "avg(amount)", "all": "sum(amount)", "top": "max(amount)"}
    totals = keyed.table("totals", columns, ttl="1 day")
    totals.changes().by("region").table("regions", customers="count(*)")
    by_region = stream.by("region", double="concat(region, region)")
    by_region.table(
        "merged", n="count(*)", kinds="count(distinct customer)", mean="avg(amount)", ttl="2 days"
    )
    fold = kf.fold(
        zero={"cents": "0L", "n": "0L", "more": "0L"},
        update={"cents": "state.cents + 100 * amount", "n": "state.n + 1", "more": "state.more + 1"},
        result="array(state.cents, state.n, state.more)",
        migrate={"cents": cents},
    )
    keyed.table("folded", spent=fold)
    windows = stream.by("customer").tumbling("10 seconds")
    windows.table("closing", rows="count(*)", total="sum(amount)", least="min(amount)")
    windows.table("renamed", n="count(*)", keep="1 minute", was="keeping")
    sessions = stream.by("customer").session("5 seconds")
    sessions.table("visits", least="min(amount)", n="count(*)", emit="changes")
    stream.by("region").sliding("20 seconds", every="10 seconds").table(
        "sliding", n="count(*)", total="sum(amount)"
    )
    return app


def planned(app: kf.App, home: Path, feeds: Path, *only: str) -> AppPlan:
    """An app beside its home; with `only`, some of its tables, for which Spark takes less time."""
    spark = session.users_session(shared_session(), load())
    return compiled_plan(spark, some(app, *only), AppHome(home / "shop"), feeds)


def some(app: kf.App, *only: str) -> AppSpec:
    """An app with some of its tables, or all."""
    spec = app.spec()
    return replace(spec, tables=tuple(table for table in spec.tables if not only or table.name in only))


def migrated(plan: AppPlan, *only: str) -> dict[str, Any]:
    compiled = {one.spec.name: one for one in plan.tables}
    found = [one for one in plan.changes if one.kind == "migratable" and (not only or one.table in only)]
    wanted = [Migrated(compiled[one.table], one) for one in found]
    return migrate(plan.spark, plan.home, wanted, "a test", lambda _: None)


def grouped(found: list[Row], *keys: str) -> Groups:
    groups: Groups = defaultdict(list)
    for row in found:
        groups[tuple(row[key] for key in keys)].append(row["amount"])
    return groups


def windowed(found: list[Row], key: str, size: int, every: int) -> Groups:
    """Amounts by key and window start, in seconds."""
    groups: Groups = defaultdict(list)
    for row in found:
        second = int(row["t"][-2:])
        for start in range(-size, second + 1, every):
            if start <= second < start + size:
                groups[row[key], start].append(row["amount"])
    return groups


def shown(d: Driver, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of a table; a window's start in seconds after the beginning of the year."""
    return sorted(
        tuple(_second(row[name]) if name == "window_start" else row[name] for name in columns)
        for row in d.rows(table)
    )


def _second(moment: Any) -> int:
    return int(moment.timestamp()) - 1767225600


def of(groups: Groups, *values: Any) -> list[tuple[Any, ...]]:
    return sorted((*key, *(value(found) for value in values)) for key, found in groups.items())


def check_old(d: Driver, all_rows: list[Row]) -> None:
    by_both = grouped(all_rows, "customer", "region")
    assert shown(d, "totals", "customer", "region", "n", "total", "top") == of(by_both, len, sum, max)
    assert shown(d, "folded", "customer", "region", "spent") == of(by_both, sum)
    windows = windowed(all_rows, "customer", 10, 10)
    assert shown(d, "closing", "customer", "window_start", "n", "total") == of(windows, len, sum)


def check_new(d: Driver, old: list[Row], new: list[Row]) -> None:
    """Recounts every table: what was added knows the new rows alone, the rest all of them."""
    both, added = grouped(old + new, "customer", "region"), grouped(new, "customer", "region")
    expected = [
        (*key, sum(added[key]) / len(added[key]) if added[key] else None, sum(found), max(found))
        for key, found in both.items()
    ]
    assert shown(d, "totals", "customer", "region", "mean", "all", "top") == sorted(expected)
    assert shown(d, "regions", "region", "customers") == [("x", 2), ("y", 2)]
    by_region = grouped(old + new, "region")
    assert [
        (r, dd, n, k, round(m, 9))
        for r, dd, n, k, m in shown(d, "merged", "region", "double", "n", "kinds", "mean")
    ] == [
        (region, region * 2, len(found), 2, round(sum(found) / len(found), 9))
        for (region,), found in sorted(by_region.items())
    ]
    assert shown(d, "folded", "customer", "region", "spent") == sorted(
        (*key, [100 * sum(found), len(found), len(added[key])]) for key, found in both.items()
    )
    windows = windowed(old + new, "customer", 10, 10)
    fresh = windowed(new, "customer", 10, 10)
    assert shown(d, "closing", "customer", "window_start", "rows", "total", "least") == sorted(
        (*key, len(found), sum(found), min(fresh[key]) if fresh[key] else None)
        for key, found in windows.items()
    )
    assert shown(d, "renamed", "customer", "window_start", "n") == of(windows, len)
    # The rows of a customer are four seconds apart, and make one session.
    visits, later = grouped(old + new, "customer"), grouped(new, "customer")
    assert shown(d, "visits", "customer", "least", "n") == sorted(
        (*key, min(later[key]) if later[key] else None, len(found)) for key, found in visits.items()
    )
    # Rows of windows that were closed under the old keys are gone: state does not have them.
    sliding = windowed(old + new, "region", 20, 10)
    still_open = {key: found for key, found in sliding.items() if key[1] + 20 > 11}
    assert shown(d, "sliding", "region", "window_start", "n", "total") == of(still_open, len, sum)


def files(home: Path) -> dict[str, bytes]:
    """All files of the app but its lease, and what SQLite has beside a file that is read."""
    top = home / "shop"
    found = (path for path in top.rglob("*") if path.is_file() and "lease" not in path.parts)
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in found
        if not path.name.startswith("views.db-")
    }


class Killed(BaseException):
    """The process ends at a fault point."""


def killing(at: FaultPoint, number: int = 1) -> Any:
    """Ends the process when it comes to a point for the given time."""
    times = iter(range(number - 1, -1, -1))

    def handler(point: FaultPoint, facts: dict[str, Any]) -> None:
        # The lease is written too, before anything else.
        if point == at and "lease" not in str(facts.get("name")) and next(times) == 0:
            raise Killed(point)

    return handled_by(handler)


def test_what_is_written_is_computed_once(tmp_path: Path) -> None:
    with drive(some(before(), "folded"), home=tmp_path) as d:
        d.push("orders", OLD)
    plan, place = planned(after(), tmp_path, tmp_path / "feeds", "folded"), AppHome(tmp_path / "shop")
    old = place.table("folded").checkpoint / "state"
    aside = tmp_path / "aside"

    def take_away(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.MIGRATION_COMPUTED:
            old.rename(aside)
        if point == FaultPoint.MIGRATION_READY:
            aside.rename(old)

    # What is compared with the rows that were written must be those rows: a sum of doubles may differ.
    with handled_by(take_away):
        migrated(plan, "folded")
    with drive(some(after(), "folded"), home=tmp_path) as d:
        spent = {row["customer"]: row["spent"][0] for row in d.rows("folded")}
    assert spent == {c: 100 * sum(r["amount"] for r in OLD if r["customer"] == c) for c in "abcd"}


@pytest.mark.timeout(600)
def test_state_follows_a_changed_definition_and_can_go_back(tmp_path: Path) -> None:
    with drive(before(), home=tmp_path) as d:
        d.push("orders", OLD[:6])
        d.push("orders", OLD[6:])
        check_old(d, OLD)
        assert shown(d, "keeping", "customer", "window_start", "n") == of(
            windowed(OLD, "customer", 10, 10), len
        )
    home = AppHome(tmp_path / "shop")
    written = files(tmp_path)

    # What would be done, before anything is done.
    plan = planned(after(), tmp_path, tmp_path / "feeds")
    assert {one.table: one.kind for one in plan.changes} == {
        "totals": "migratable",
        "regions": "same",
        "merged": "migratable",
        "folded": "migratable",
        "closing": "migratable",
        "renamed": "migratable",
        "visits": "migratable",
        "sliding": "migratable",
    }
    effects = {one.table: one.effects for one in plan.changes}
    assert effects["totals"][1:] == (
        "top_max: INT becomes BIGINT",
        "mean: starts empty",
        "all: renamed from total",
        "n: dropped",
    )
    with pytest.raises(StateMismatch, match=r"can be migrated(.|\n)*keyfold migrate"):
        drive(some(after(), "folded"), home=tmp_path).__enter__()

    # An expression that fails on one key names it; one that makes no sense is refused; nothing is changed.
    failing = planned(after("1 div (state.s - 8)"), tmp_path, tmp_path / "failing", "folded")
    with pytest.raises(RunError, match=r"customer=b, region=y.*zero"):
        migrated(failing, "folded")
    wrong = planned(after("state.x"), tmp_path, tmp_path / "wrong", "folded")
    with pytest.raises(BadExpression, match="migrate of spent_cents: No such struct field `x`"):
        migrated(wrong, "folded")
    clock = planned(after("unix_micros(current_timestamp())"), tmp_path, tmp_path / "clock", "folded")
    with pytest.raises(BadExpression, match="migrate of spent_cents reads the clock"):
        migrated(clock, "folded")
    with killing(FaultPoint.MIGRATION_READY), pytest.raises(Killed):
        migrated(plan, "closing")
    with unfinished.held(home):
        pass
    assert files(tmp_path) == written

    # Killed again and again while it is being switched: it resumes where it stopped.
    with killing(FaultPoint.MIGRATION_RECORDED), pytest.raises(Killed):
        migrated(plan)
    for point, number in (
        (FaultPoint.MIGRATION_COPIED, 1),
        (FaultPoint.STORAGE_FLUSHED, 2),
        (FaultPoint.MIGRATION_SWITCHED, 1),
        (FaultPoint.STORAGE_NAMED, 7),
        (FaultPoint.MIGRATION_VIEW_DONE, 3),
        (FaultPoint.MIGRATION_PLAN_DONE, 1),
    ):
        with killing(point, number), pytest.raises(Killed), unfinished.held(home):
            pass
    with unfinished.held(home):
        pass
    assert {"migrating", "migrating.json"}.isdisjoint(path.name for path in home.path.iterdir())
    assert not (home.path / "tables" / "keeping").exists()
    entry = audit.entries(home.storage)[-1]
    assert (entry["what"], entry["keys"]["merged"], entry["why"]) == ("migrate", 2, "a test")
    since = home.read_plan().tables["totals"].since
    assert [(name, one.batch) for name, one in since.items()] == [("mean", entry["batches"]["totals"])]

    # What was written is a state like any other: it can be given another number of partitions.
    rescale.rescale(plan.spark, home, "totals", 3, None, lambda _: None)
    with drive(after(), home=tmp_path) as d:
        check_new(d, OLD, [])
        d.push("orders", NEW)
        check_new(d, OLD, NEW)
        # Timers were recreated: keys expire, and retained windows are dropped.
        d.advance("orders", "2026-01-05 00:00:00")
        assert {name: d.rows(name) for name in ("totals", "regions", "merged", "renamed")} == {
            "totals": [],
            "regions": [],
            "merged": [],
            "renamed": [],
        }
    assert set(home.read_plan().tables["totals"].since) == {"mean"}

    # A bad deploy: back to the savepoint and the old definition, with the rows that came since.
    assert [one.name for one in Savepoints(home).all()] == [entry["undo"]]
    restore.restore(home, entry["undo"], (), None, silent)
    with drive(some(before(), "totals", "folded", "closing", "keeping"), home=tmp_path) as d:
        check_old(d, OLD + NEW)
        # The time of the last row has come again too, and kept windows have gone.
        assert d.rows("keeping") == []
