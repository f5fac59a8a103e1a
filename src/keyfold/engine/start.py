"""Starts an app: takes its home, compiles its tables, aligns views and state, starts the queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import cluster, session
from keyfold.engine.app_queries import AppQueries
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream, compile_streams
from keyfold.engine.compile.table import compile_app
from keyfold.engine.handle import Handle
from keyfold.engine.initial.begin import begin, begins
from keyfold.engine.jvm import process
from keyfold.engine.kafka import client
from keyfold.engine.kafka import connector as kafka_connector
from keyfold.engine.kafka.listening import wait_for_brokers
from keyfold.engine.log import shared_streams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.migration.table_names import RENAMED
from keyfold.engine.operations import unfinished
from keyfold.engine.realtime import start as realtime
from keyfold.engine.recovery import (
    bootstrap,
    compilation_record,
    damage,
    definition,
    definition_check,
    lost_messages,
    remote_home,
    sink_positions,
    stream_definition,
    view_moving,
)
from keyfold.engine.recovery.query_failure import of_table
from keyfold.engine.recovery.view_rebuild import align
from keyfold.engine.sources import inline_rows, missing_files
from keyfold.engine.sources.topic_wait import wait_for_topics
from keyfold.engine.startup_phases import Tell, brief
from keyfold.engine.status.monitor import record_failure
from keyfold.engine.storage.layout import AppHome, TableHome, local_app_home, remote_app_home
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.processes import jvm_pid
from keyfold.engine.storage.remote import SparkStorage
from keyfold.errors import HomeLocked, RunError
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec, Source
from keyfold.plan.validate import arguments, latency
from keyfold.settings import Settings, load
from keyfold.views.contract import ViewStore
from keyfold.views.none import NoViews

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(
    spec: AppSpec,
    *,
    spark: Any = None,
    home: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Path] | None = None,
    changelog: bool = False,
    tell: Tell = brief,
    alone: bool = False,
    standby: Callable[[HomeLocked], None] | None = None,
    recorded: bool = False,
) -> Handle:
    """Starts every table of the app and returns at once.

    `spark`: a session, or settings for one. `feeds`: directories of JSON rows in place of streams' sources.
    `changelog`: keep the changes of each batch. `alone`: the process ends with this run.
    `standby`: called again and again while another process holds the home, in place of an error; the start
    goes on when that has ended. Spark is up by then. `recorded`: tables read what streams have recorded, and
    streams read nothing; no status is written.
    """
    arguments.require_tables(spec)
    latency.check_app(spec)
    if isinstance(spark, Mapping):
        settings, spark = {**(settings or {}), "spark": dict(spark)}, None
    wanted = load(home=home, **dict(settings or {}))
    if spark is None:
        process.forget()
    # In a session of the user's, expressions can mean something else.
    usual = alone and spark is None and not session.is_running() and not (feeds or recorded)
    own: SparkSession | None = None
    if isinstance(wanted.home, Path):
        app_home = local_app_home(wanted.home, spec.name)
    else:
        # Only Spark can write such a home: it is started before the lease can be taken.
        own = _session(spec, spark, wanted, tell, alone)
        with remote_home.explained(wanted.home):
            storage = SparkStorage(session.kernel(own), own, f"{wanted.home}/{spec.name}")
            app_home = remote_app_home(storage, wanted.local_directory, spec.name)
    if standby is not None:
        own = own or _session(spec, spark, wanted, tell, alone)
    with remote_home.explained(str(wanted.home)):
        lease = _taken(app_home, wanted, standby)
    try:
        app_home.use_local(wanted.local)
        unfinished.finish(app_home)
        if wanted.views != "none":
            view_moving.use_views(app_home, wanted.views)
        # Before Spark, which takes longer to start than it takes to see that nothing listens.
        with client.using(wanted.kafka):
            wait_for_brokers(spec, feeds or {})
        own = own or _session(spec, spark, wanted, tell, alone)
        with process.reporting_java_end(spec.name):
            lease.holds_jvm(jvm_pid(own.sparkContext._gateway))
            if kafka_connector.read(spec, feeds or {}):
                kafka_connector.check_login(own, spec, wanted)
                kafka_connector.load(own, wanted)
            with client.using(wanted.kafka):
                begin(start, own, spec, app_home, feeds or {}, tell, views=wanted.views != "none")
                started = _Start(spec, own, app_home, lease, wanted)
                usual = usual and isinstance(wanted.home, Path)
                return started.run(feeds or {}, changelog, tell, recorded, usual=usual)
    except BaseException as error:
        if isinstance(error, RunError):
            record_failure(app_home, error)
        lease.release()
        raise


def _taken(home: AppHome, wanted: Settings, standby: Callable[[HomeLocked], None] | None) -> Lease:
    while True:
        try:
            return Lease(home, seconds=wanted.lease_seconds).take()
        except HomeLocked as error:
            if standby is None:
                raise
            standby(error)


def _session(spec: AppSpec, spark: Any, wanted: Settings, tell: Tell, alone: bool) -> SparkSession:
    with process.reporting_java_end(spec.name):
        if spark is None:
            return session.own_session(wanted, tell=tell, alone=alone)
        return session.users_session(spark, wanted)


class _Start:
    """One start of an app, step by step."""

    def __init__(
        self, spec: AppSpec, spark: SparkSession, home: AppHome, lease: Lease, settings: Settings
    ) -> None:
        self.spec, self.spark, self.home, self.lease, self.settings = spec, spark, home, lease, settings
        cluster.require_shared_home(spark, session.kernel(spark), home.storage.uri())
        self.stored = home.read_plan()
        self.lookups = Lookups(spark, session.kernel(spark))

    def run(
        self, feeds: Mapping[str, Path], changelog: bool, tell: Tell, recorded: bool, *, usual: bool
    ) -> Handle:
        """Compiles, checks and starts every table.

        `usual`: Spark has the settings that a command's own session would have.
        """
        tell("tables")
        tables = self._compiled(feeds, recorded)
        store = self._open_views()
        handle = Handle(self.shared, self.spark, self.home, self.lease, store, self.lookups, frozenset(feeds))
        try:
            tell("views")
            self._aligned(tables, store)
            if usual:
                with suppress(OSError):  # it only saves time
                    compilation_record.record(self.home, self.settings, self.shared, tables, self.streams)
            tell("queries")
            queries = AppQueries(
                self.shared, self.spark, self.home, self.lease, self.settings, self.stored, self.partitions
            )
            for stream in () if recorded else self.streams.values():
                queries.start_stream(handle, stream)
            for table in tables:
                queries.start_table(handle, table, changelog)
            if not recorded:
                handle._started()
        except BaseException:
            handle.stop()
            raise
        return handle

    def _compiled(self, feeds: Mapping[str, Path], recorded: bool) -> list[Compiled]:
        """The tables, checked against what is on disk. Nothing is written unless all of them fit."""
        spec, app_home = self.spec, self.home
        self.topics = topics = wait_for_topics(self.spark, spec, feeds)
        read: dict[str, str | Path] = {**inline_rows.directories(spec, app_home), **feeds}
        self.shared = shared_streams.decided(spec, self.stored, app_home)
        self.streams = compile_streams(self.spark, self.shared, read)
        after = begins(self.stored)
        tables = compile_app(self.spark, spec, read, app_home, self.lookups, self.shared, self.streams, after)
        for stream in () if recorded else self.streams.values():
            stream_definition.check(spec.name, self.stored, stream, app_home)
            home = app_home.stream_home(stream.spec.name)
            lost_messages.check(spec.name, stream.spec.name, [stream.spec], home, topics)
        for table in tables:
            home = app_home.table(table.spec.name)
            definition_check.check(spec, self.stored, table, app_home)
            damage.check(spec.name, table.spec.name, home)
            definition_check.check_log(spec.name, table, home)
            lost_messages.check(spec.name, table.spec.name, self._read_by(table), home, topics)
        for stream in () if recorded else self.streams.values():
            lost_messages.record([stream.spec], app_home.stream_home(stream.spec.name), topics)
        for table in tables:
            home = app_home.table(table.spec.name)
            lost_messages.record(self._read_by(table), home, topics)
            home.spark.relocate()
            for name, clock in table.clocks.items():
                if name in topics:
                    clock.retain(topics[name].partitions)
        self.partitions = self._all_partitions(tables)
        inline_rows.check(spec, app_home)
        self.lookups.load()
        inline_rows.write(spec, app_home)
        return tables

    def _read_by(self, table: Compiled) -> list[Source]:
        """The streams whose sources a table reads itself, and not their logs."""
        logged = self.shared.of(table.spec)
        return [stream for stream in tree.sources(table.spec.input) if stream.name not in logged]

    def _open_views(self) -> ViewStore:
        return NoViews() if self.settings.views == "none" else self.home.views.open(read_only=False)

    def _aligned(self, tables: list[Compiled], store: ViewStore) -> None:
        """Aligns views, state, sinks and readers, and records the plan."""
        sink_positions.prepare(self.spec, self.stored, self.home)
        for table in tables:
            home = self.home.table(table.spec.name)
            with of_table(self.spec.name, table.spec.name, home):
                align(self.spark, store, table, self.home)
            self._skip_missing_files(table, home)
        for stream in self.streams.values():
            self._skip_missing_files(stream, self.home.stream_home(stream.spec.name))
        bootstrap.prepare(self.spark, self.shared, tables, self.home, store)
        plan = definition.plan_of(self.shared, tables, self.partitions, self.streams)
        self.home.write_plan(_merged(self.stored, plan))

    def _skip_missing_files(self, compiled: Compiled | CompiledStream, home: TableHome) -> None:
        if self.settings.missing_files == "skip":
            published = _published(home)
            missing_files.skip(compiled.name, compiled.spec.site, compiled.files, home, published)

    def _all_partitions(self, tables: list[Compiled]) -> dict[str, int]:
        """The number of state partitions of each table."""
        found = {table.spec.name: self._partitions(table) for table in tables}
        fixed = {name: number for name, number in found.items() if number is not None}
        fast = realtime.partitions(self.spark, self.spec.name, tables, fixed, self.topics)
        default = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        return {**dict.fromkeys(found, default), **fixed, **fast}

    def _partitions(self, table: Compiled) -> int | None:
        """The number of state partitions: that of the checkpoint, else of the plan, else as declared."""
        fixed = self.home.table(table.spec.name).spark.partitions()
        if fixed is not None:
            return fixed
        known = ((self.stored or {}).get("tables") or {}).get(table.spec.name)
        if known is not None:
            return int(known["partitions"])
        return table.spec.partitions


def _published(home: TableHome) -> int:
    """The newest batch of a table that followers may have seen; -1 if there is none."""
    newest = TableLog(home.log_files).newest()
    return -1 if newest is None else newest


def _merged(stored: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The new plan; tables that the app no longer declares keep their entry, since their state remains."""
    old = stored or {}
    streams = old.get("streams", {})
    now = {name: {**streams.get(name, {}), **entry} for name, entry in new["streams"].items()}
    tables = old.get("tables", {})
    declared = {name: _kept(tables.get(name) or {}, entry) for name, entry in new["tables"].items()}
    return {**new, "streams": {**streams, **now}, "tables": {**tables, **declared}}


def _kept(old: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """A table's entry with what is recorded once: when columns were added, its first rows, its renames."""
    columns = {part.removeprefix("column:") for part in entry["meaning"] if part.startswith("column:")}
    since = {name: at for name, at in (old.get("since") or {}).items() if name in columns}
    began = {part: old[part] for part in ("initial", RENAMED) if old.get(part)}
    return {**entry, **({"since": since} if since else {}), **began}
