"""Random batches, savepoints, restores, rescales, migrations, erasures and kills equal a plain fold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.cli.app.plan import compiled_plan
from keyfold.engine import session
from keyfold.engine.erasure import forget
from keyfold.engine.migration.migrate import Migrated, migrate
from keyfold.engine.recovery import verification
from keyfold.engine.rescale import rescale
from keyfold.engine.savepoint import create, restore
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.state_reading import state_of
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import surgery as key_surgery
from keyfold.errors import KeyfoldError, QueryFailed
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.settings import load
from keyfold.testing import Driver, drive, shared_session
from tests.engine.models.operations_model import SECONDS, Model, Row, Version
from tests.engine.models.strategies import plans
from tests.engine.recovery.kills import Killed, steps
from tests.engine.recovery.test_resize import ZERO, at

pytestmark = pytest.mark.jvm

KEYS = "abcde"
BATCH_POINTS = (
    FaultPoint.BATCH_BEGUN,
    FaultPoint.PARTS_WRITTEN,
    FaultPoint.BATCH_PUBLISHED,
    FaultPoint.VIEW_WRITTEN,
    FaultPoint.BATCH_DONE,
)


def app(version: Version) -> kf.App:
    """A table, one that reads it, and windows; two versions of each definition."""
    made = kf.App("shop")
    rows = made.stream("rows", kf.rows([]), "k string, x bigint, t timestamp", time="t", late="0 seconds")
    columns = {"n": "count(*)", "total": "sum(x)"} | ({"more": "count(x)"} if version.more else {})
    totals = rows.by("k").table("totals", columns)
    totals.changes().by(odd="n % 2").table("parity", keys="count(*)", total="sum(total)")
    other = "panes" if version.windows == "windows" else "windows"
    rows.by("k").tumbling(f"{SECONDS} seconds").table(version.windows, n="count(*)", was=other)
    return made


class World:
    """An app in a home beside its model. Commands are carried out while it is stopped."""

    def __init__(self, home: Path) -> None:
        self.home, self.model = home, Model()
        self.app_home = AppHome(home / "shop")
        self.second = 0
        self.number = 0
        self._driver: Driver | None = None

    @property
    def d(self) -> Driver:
        if self._driver is None:
            self._driver = drive(app(self.model.now.version), home=self.home)
            self._driver.__enter__()
        return self._driver

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.__exit__(None, None, None)
            self._driver = None

    def name(self) -> str:
        self.number += 1
        return f"s{self.number}"

    def push(self, drawn: list[tuple[str, int]], point: FaultPoint | None, table: str) -> None:
        """A batch, in which the app may fail."""
        self.second += 6
        rows: list[Row] = [(key, value, self.second) for key, value in drawn]
        d, failed = self.d, []

        def fail(now: FaultPoint, facts: dict[str, Any]) -> None:
            if now == point and facts.get("table") == table and not failed:
                failed.append(now)
                raise OSError("a test")

        with handled_by(fail), suppress(QueryFailed):
            d.push("rows", [{"k": k, "x": x, "t": at(second)} for k, x, second in rows])
        if failed:
            d.restart()
        self.model.push(rows)

    def crash(self) -> None:
        """The last batch runs again."""
        self.d.crash()

    def command(self, act: Callable[[], Any], change: Callable[[Model], None], what: str, kill: int) -> None:
        """A command on the stopped app, which may be killed: then the app is as before or as after it."""
        self.d.handle.drain()
        self.stop()
        before = self.model.copy()
        entries = {one["id"] for one in audit.entries(self.app_home.storage)}
        with suppress(Killed), steps(kill):
            act()
        intents = [name for name in self.app_home.storage.list() if name.endswith("ing.json")]
        done = [one for one in audit.entries(self.app_home.storage) if one["id"] not in entries]
        if intents or any(one["what"] == what for one in done):
            change(self.model)
        for name in Savepoints(self.app_home).names():
            # A command makes one of what it is about to change.
            self.model.savepoints.setdefault(name, before.now)
        self.model.read()

    def check(self) -> None:
        """The view and the state are what the model says."""
        tables, d = self.model.now.tables, self.d
        names = ("n", "total", "more") if self.model.now.version.more else ("n", "total")
        expected = {key: row[: len(names)] for key, row in tables.totals.items()}
        assert {row["k"]: [row[name] for name in names] for row in d.rows("totals")} == expected
        found = {row["odd"]: [row["keys"], row["total"]] for row in d.rows("parity")}
        assert found == tables.parity
        windows = self.model.now.version.windows
        rows = {(row["k"], _second(row["window_start"])): row["n"] for row in d.rows(windows)}
        assert rows == tables.windows
        state = state_of(self.app_home, "totals").rows(shared_session()).frame.collect()
        assert {row["k"]: [row["n_count"], row["total_sum"]] for row in state} == {
            key: row[:2] for key, row in tables.totals.items()
        }
        assert not audit.breaks(self.app_home.storage)
        assert set(Savepoints(self.app_home).names()) == set(self.model.savepoints)

    def verify(self) -> None:
        """Each view was compared, and is what the state and the log say."""
        self.stop()
        spark = session.users_session(shared_session(), load())
        with (
            tempfile.TemporaryDirectory() as feeds,
            self.app_home.views.open(read_only=True) as view,
        ):
            plan = compiled_plan(spark, app(self.model.now.version).spec(), self.app_home, Path(feeds))
            for one in plan.tables:
                found = verification.verify(spark, one, self.app_home, view)
                assert found.compared, found
                assert found.state == [], found
                assert found.equal, found

    # Commands, each with what it does to the model

    def create(self, kill: int) -> None:
        name = self.name()
        self.command(lambda: create.create(self.app_home, name), lambda model: None, "savepoint", kill)

    def save_live(self) -> None:
        name = self.name()
        self.d.handle.savepoint(name)
        self.model.save(name)

    def restore(self, choice: int, kill: int) -> None:
        names = sorted(self.model.savepoints)
        if names:
            name = names[choice % len(names)]
            self.command(
                lambda: restore.restore(self.app_home, name, (), None, silent),
                lambda model: model.restore(name),
                "restore",
                kill,
            )

    def rescale(self, choice: int, kill: int) -> None:
        table = ("totals", "parity", self.model.now.version.windows)[choice % 3]
        now = self.d and self.app_home.table(table).spark.partitions()
        number = next(n for n in (choice % 4 + 1, 5) if n != now)

        def act() -> None:
            rescale.rescale(shared_session(), self.app_home, table, number, None, lambda _: None)

        self.command(act, lambda model: None, "rescale", kill)

    def migrate(self, choice: int, kill: int) -> None:
        now = self.model.now.version
        more = now.more != (choice % 3 != 1)
        other = "panes" if now.windows == "windows" else "windows"
        to = Version(more, other if choice % 3 != 0 else now.windows)

        def act() -> None:
            spark = session.users_session(shared_session(), load())
            with tempfile.TemporaryDirectory() as feeds:
                plan = compiled_plan(spark, app(to).spec(), self.app_home, Path(feeds))
                compiled = {one.spec.name: one for one in plan.tables}
                changed = [one for one in plan.changes if one.kind == "migratable"]
                wanted = [Migrated(compiled[one.table], one) for one in changed]
                migrate(spark, self.app_home, wanted, None, lambda _: None)

        self.command(act, lambda model: model.migrate(to), "migrate", kill)

    def forget(self, choice: int, kill: int) -> None:
        table, key = self._some_key(choice)

        def act() -> None:
            with refused("has this key"):
                forget.forget(shared_session(), self.app_home, table, [key], None, lambda _: None)

        self.command(act, lambda model: model.forget(table, key), "forget", kill)

    def delete(self, choice: int, kill: int) -> None:
        table, key = self._some_key(choice)

        def act() -> None:
            given = (shared_session(), self.app_home, table, [key], None, lambda _: None, silent)
            # State has no windows that are closed.
            with refused("has no such key"), key_surgery.begin(*given) as surgery:
                key_surgery.delete(surgery)

        self.command(act, lambda model: model.delete(table, key), "state delete", kill)

    def _some_key(self, choice: int) -> tuple[str, str]:
        """A table, and a key that it has, if it has any."""
        tables = self.model.now.tables
        if choice % 2:
            keys = sorted({key for key, _ in tables.windows})
            return self.model.now.version.windows, (keys or KEYS)[choice % (len(keys) or 1)]
        return "totals", (sorted(tables.totals) or KEYS)[choice % (len(tables.totals) or 1)]


@contextmanager
def refused(why: str) -> Iterator[None]:
    """A command may be refused for this reason, and for no other."""
    try:
        yield
    except KeyfoldError as error:
        if why not in error.what:
            raise


def _second(moment: Any) -> int:
    return int((moment - ZERO).total_seconds())


choices = st.integers(0, 59)
kills = st.integers(0, 60) | st.integers(0, 400) | st.just(10**6)
rows = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-9, 9)), min_size=1, max_size=8)
STEPS = {
    "push": st.tuples(rows, st.none() | st.sampled_from(BATCH_POINTS), st.sampled_from(["totals", "parity"])),
    "crash": st.tuples(),
    "create": st.tuples(kills),
    "save_live": st.tuples(),
    **{name: st.tuples(choices, kills) for name in ("restore", "rescale", "migrate", "forget", "delete")},
}
sequences = st.lists(
    st.sampled_from(sorted(STEPS)).flatmap(lambda name: st.tuples(st.just(name), STEPS[name])),
    min_size=6,
    max_size=8,
)


PAIRS = (
    ("forget", 1),
    ("rescale", 2),
    ("delete", 0),
    ("rescale", 0),
    ("migrate", 0),
    ("rescale", 1),
    ("restore", 2),
    ("forget", 0),
)
"""Operations with what they choose: a rescale, which adds nothing to the log, after and before others."""


def test_the_view_follows_each_operation_when_no_input_comes_after_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.push([(key, 1) for key in KEYS], None, "totals")
        world.push([("a", 2), ("b", 3)], None, "totals")
        for name, choice in PAIRS:
            getattr(world, name)(choice, 10**6)
            world.check()
            world.verify()
    finally:
        world.stop()


@pytest.mark.timeout(1800)
@plans(3)
@given(rows, sequences)
def test_random_operations_equal_a_plain_fold(
    first: list[tuple[str, int]], drawn: list[tuple[str, tuple[Any, ...]]]
) -> None:
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        try:
            world.push(first, None, "totals")
            last = "push"
            for name, given_ in drawn:
                if name == "crash" and last != "push":
                    # Spark has no batch to run again after a command that added one by itself.
                    world.push(first, None, "totals")
                last = name
                getattr(world, name)(*given_)
                world.check()
        finally:
            world.stop()
