"""Compiles an app against its home without running it, for commands that compare it with what is on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyfold.cli.app.loader import Loaded
    from keyfold.engine.compile.compiled import Compiled
    from keyfold.engine.compile.stream import CompiledStream
    from keyfold.engine.migration.migrate import Migrated, Tell
    from keyfold.engine.migration.prepared_table import PreparedTable
    from keyfold.engine.recovery.definition_changes import TableChange
    from keyfold.engine.storage.layout import AppHome
    from keyfold.engine.storage.stored_app import StoredApp
    from keyfold.plan.nodes import AppSpec


@dataclass(frozen=True)
class AppPlan:
    """A compiled app beside what its home has."""

    spark: Any
    """None if Spark did not have to be asked, since nothing has changed."""
    spec: AppSpec
    home: AppHome
    stored: StoredApp
    tables: list[Compiled]
    changes: list[TableChange]
    feeds: Path

    def rebuild(self, tables: Sequence[Migrated], tell: Tell) -> list[PreparedTable]:
        """Rebuilds tables from rows of their streams, beside the old ones."""
        from keyfold.engine.rebuild.run import rebuild

        return rebuild(self.spark, self.spec, self.home, tables, self.feeds, tell)


@contextmanager
def plan_app(
    loaded: Loaded, home: str | None, *, stopped: bool = False, runs: bool = False
) -> Iterator[AppPlan]:
    """An app compiled by Spark and compared with its home, which is not written.

    `stopped`: the app must not run, which is found out before Spark takes its time to start. `runs`: tables
    are run, whether or not they have changed.
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import for_workers
    from keyfold.cli.home.savepoint_dialog import refuse_running
    from keyfold.cli.home.spark_session import is_small, session_of
    from keyfold.engine import session
    from keyfold.engine.jvm import process
    from keyfold.engine.recovery import compilation_record, remote_home
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import AppHome
    from keyfold.engine.storage.remote import SparkStorage
    from keyfold.settings import load

    settings = load(home=home)
    if home:
        home_of(home)  # for its error, if that is not a directory
    spec = loaded.app.spec()
    with (
        TemporaryDirectory(prefix="keyfold-plan-", ignore_cleanup_errors=True) as directory,
        process.ending_java(),
        process.reporting_java_end(spec.name),
    ):
        app_home = AppHome(settings.local_directory / spec.name)
        if isinstance(settings.home, Path):
            app_home = AppHome(settings.home.resolve() / spec.name)
            app_home.read_plan()  # for its error, before Spark is started
        if stopped:
            # Of a home elsewhere, the local files say whether the app runs on this host.
            refuse_running(app_home)
        local = isinstance(settings.home, Path)
        known = compilation_record.read_compiled(spec, settings, app_home) if local and not runs else None
        if known is not None:
            output.say(compilation_record.UNCHANGED)
            yield _compare(None, spec, app_home, known.tables, known.streams, Path(directory))
            return
        for_workers(loaded)
        output.say("starting Spark" if local else f"opening {settings.home} through Spark")
        # Spark logs to the home of its settings, which must not be the one that is compared.
        own = settings.model_copy(update={"home": Path(directory), "local": None})
        spark = session_of(own, small=not runs and (not stopped or is_small(settings)))
        if not isinstance(settings.home, Path):
            with remote_home.explain_errors(settings.home):
                storage = SparkStorage(session.kernel(spark), spark, f"{settings.home}/{spec.name}")
                app_home = AppHome(settings.local_directory / spec.name, storage)
        output.say(f"comparing {spec.name} with {app_home.shown}")
        yield compiled_plan(spark, spec, app_home, Path(directory) / "feeds")


def a_line_each(first: tuple[str, ...], effects: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The rows of a table: what is said once, then each effect in a line of its own."""
    for number, effect in enumerate(effects or ("",)):
        yield (*(first if number == 0 else ("" for _ in first)), effect)


def fill_advice(file: str, changes: Iterable[TableChange]) -> list[str]:
    """The command that fills columns which a migration leaves empty, for each table that has one."""
    return [
        f"{one.table}: " + rebuild_advice(file, one, f"fills {' and '.join(one.mapping.added)} from")
        for one in changes
        if one.recorded is not None and one.mapping is not None
    ]


def rebuild_advice(file: str, change: TableChange, does: str) -> str:
    """The command that rebuilds a table from recorded rows, with all that have read it; what it does."""
    from keyfold.cli import formatting

    options = [*(["--with-readers"] if change.readers else []), *([] if change.whole else ["--partial"])]
    command = " ".join(["keyfold rebuild", file, change.table, *options])
    rows = f"rows that its streams have recorded since {formatting.moment(change.recorded or '')}"
    others = f", and rebuilds {', '.join(change.readers)} with it" if change.readers else ""
    lost = "" if change.whole else "; what was folded from earlier rows is lost"
    return f"{command} {does} {rows}{others}{lost}"


def compiled_plan(spark: SparkSession, spec: AppSpec, home: AppHome, feeds: Path) -> AppPlan:
    """The app as Spark understands it, compared table by table. `feeds`: a directory for empty inputs."""
    from keyfold.cli.app.check import empty_feeds
    from keyfold.engine.compile.stream import compile_streams
    from keyfold.engine.compile.table import compile_app
    from keyfold.engine.log import shared_streams

    inputs = empty_feeds(spec, feeds)
    shared = shared_streams.decide(spec, home.read_plan(), home)
    streams = compile_streams(spark, shared, inputs)
    tables = compile_app(spark, spec, inputs, None, None, shared, streams)
    return _compare(spark, spec, home, tables, streams, feeds)


def _compare(
    spark: SparkSession | None,
    spec: AppSpec,
    home: AppHome,
    tables: list[Compiled],
    streams: Mapping[str, CompiledStream],
    feeds: Path,
) -> AppPlan:
    from keyfold.cli.app.check import require_whole
    from keyfold.engine.recovery import definition_check
    from keyfold.engine.recovery.definition_changes import removed_tables

    stored = home.read_plan()
    for table in tables:
        require_whole(table, home)
    changes = [definition_check.change_of(spec, stored, table, home) for table in tables]
    gone = removed_tables(spec, stored, changes)
    found = [*_changed_streams(spec, stored, streams.values(), home), *changes, *gone]
    return AppPlan(spark, spec, home, stored, tables, found, feeds)


def _changed_streams(
    spec: AppSpec, stored: StoredApp, streams: Iterable[CompiledStream], home: AppHome
) -> Iterator[TableChange]:
    """Streams whose logs were written with other types, which a start refuses."""
    from keyfold.engine.recovery import stream_definition
    from keyfold.engine.recovery.definition_changes import TableChange
    from keyfold.errors import StateMismatch

    for stream in streams:
        try:
            stream_definition.check(spec.name, stored, stream, home)
        except StateMismatch as error:
            yield TableChange(stream.spec.name, "incompatible", tuple(str(error.given).splitlines()))
