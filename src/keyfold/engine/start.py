"""Starts an app: takes its home, compiles its tables, brings views and state together, starts the queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from keyfold.engine import session
from keyfold.engine.batch.hook import BatchHook
from keyfold.engine.compile.table import Compiled, compile_app
from keyfold.engine.handle import Handle
from keyfold.engine.jvm import process
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.recovery import bootstrap, definition_check, table_removal
from keyfold.engine.recovery.query_restart import Again
from keyfold.engine.recovery.view_rebuild import align
from keyfold.engine.sources import inline_rows, missing_files
from keyfold.engine.spark_errors import of_table
from keyfold.engine.startup_phases import Tell, brief
from keyfold.engine.status.monitor import note_failure
from keyfold.engine.storage import damage
from keyfold.engine.storage.layout import AppHome, app_home
from keyfold.engine.storage.lease import Lock, jvm_pid
from keyfold.errors import RunError
from keyfold.plan.nodes import AppSpec, TableSpec
from keyfold.plan.validate import arguments
from keyfold.settings import Settings, load
from keyfold.views.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# The number of partitions is a setting of the session when a query starts: one start at a time.
_STARTING = threading.Lock()


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
) -> Handle:
    """Starts every table of the app and returns at once. `spark`: a session, or settings for one.

    `alone`: the process ends with this run.
    """
    arguments.require_tables(spec)
    if isinstance(spark, Mapping):
        settings, spark = {**(settings or {}), "spark": dict(spark)}, None
    wanted = load(home=home, **dict(settings or {}))
    place = app_home(wanted.home, spec.name)
    if spark is None:
        process.forget()
    lock = Lock(place).take()
    try:
        table_removal.finish(place)
        with process.told(spec.name):
            own = (
                session.own_session(wanted, tell=tell, alone=alone)
                if spark is None
                else session.users_session(spark, wanted)
            )
            lock.holds_jvm(jvm_pid(own.sparkContext._gateway))
            return _started(spec, own, place, lock, wanted, feeds or {}, changelog, tell)
    except BaseException as error:
        if isinstance(error, RunError):
            note_failure(place, error)
        lock.release()
        raise


def _started(
    spec: AppSpec,
    spark: SparkSession,
    place: AppHome,
    lock: Lock,
    settings: Settings,
    feeds: Mapping[str, Path],
    changelog: bool,
    tell: Tell,
) -> Handle:
    stored = place.read_plan()
    tell("tables")
    sides = Lookups(spark, session.kernel(spark))
    compiled = compile_app(spark, spec, {**inline_rows.directories(spec, place), **feeds}, place, sides)
    for one in compiled:
        definition_check.check(spec.name, stored, one, place)
        damage.check(spec.name, one.spec.name, place.table(one.spec.name))
    for one in compiled:
        place.table(one.spec.name).adopt()
    inline_rows.check(spec, place)
    sides.load()
    inline_rows.write(spec, place)
    partitions = {c.spec.name: _partitions(spark, c, stored) for c in compiled}
    store = open_store(place.views if settings.views == "sqlite" else settings.views, read_only=False)
    handle = Handle(spec, spark, place, lock, store, sides, frozenset(feeds))
    try:
        tell("views")
        for one in compiled:
            with of_table(spec.name, one.spec.name, place.table(one.spec.name)):
                align(spark, store, one, place)
            if settings.missing_files == "skip":
                missing_files.skip(spec, one, place, store)
        links = bootstrap.prepare(spark, spec, compiled, place, store)
        place.write_plan(_merged(stored, definition_check.plan_of(spec, compiled, partitions)))
        tell("queries")
        for one in compiled:
            name, views = one.spec.name, settings.views != "none"
            home = place.table(name)
            home.sweep()
            hook = BatchHook(
                one.spec, home, store, one.view, views=views, changelog=changelog, links=links[name]
            )
            handle.hooks[name] = hook
            begin = partial(_query, spark, spec, one, hook, partitions[name])
            with of_table(spec.name, name, home):
                handle.queries[name] = _begun(one.spec, hook, begin)
        handle._up()
    except BaseException:
        handle.stop()
        raise
    return handle


def _merged(stored: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Tables that the app no longer has keep their entry: their state is still there."""
    return {**new, "tables": {**(stored or {}).get("tables", {}), **new["tables"]}}


def _partitions(spark: SparkSession, compiled: Compiled, stored: dict[str, Any] | None) -> int:
    known = ((stored or {}).get("tables") or {}).get(compiled.spec.name)
    if known is not None:
        return int(known["partitions"])
    return compiled.spec.partitions or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _begun(table: TableSpec, hook: BatchHook, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    if table.process is None:
        return start()
    return cast("StreamingQuery", Again(start, f"{table.app}.{table.name}", hook))


def _query(
    spark: SparkSession, spec: AppSpec, compiled: Compiled, hook: BatchHook, partitions: int
) -> StreamingQuery:
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        # Without event time nothing is due while nothing arrives, and Spark would run empty batches for ever.
        "spark.sql.streaming.noDataMicroBatches.enabled": str(compiled.event_time).lower(),
    }
    if spec.snapshot_every is not None:
        settings["spark.sql.streaming.stateStore.minDeltasForSnapshot"] = str(spec.snapshot_every)
    writer = (
        compiled.changes.writeStream.foreachBatch(hook)
        .queryName(f"{spec.name}.{compiled.spec.name}")
        .outputMode("append")
        .option("checkpointLocation", hook.home.checkpoint_url)
    )
    if spec.every_ms:
        writer = writer.trigger(processingTime=f"{spec.every_ms} milliseconds")
    with _STARTING:
        before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            return writer.start()
        finally:
            for key, old in before.items():
                spark.conf.unset(key) if old is None else spark.conf.set(key, old)
