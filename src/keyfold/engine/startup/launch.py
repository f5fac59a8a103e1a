"""Starts the tables of an app whose home is held."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from keyfold.engine import cluster, session
from keyfold.engine.batch.hook import TableHook
from keyfold.engine.handle import Handle
from keyfold.engine.limits import batch_limit
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.recovery import compilation_record
from keyfold.engine.running import STOP_SECONDS, RunningApp
from keyfold.engine.savepoint.requests import Requests
from keyfold.engine.sources import inline_rows
from keyfold.engine.sources.idle_watermark import IdleTable, IdleWatermarks
from keyfold.engine.startup import alignment, compiled_app
from keyfold.engine.startup.home import HeldHome
from keyfold.engine.startup.queries import AppQueries
from keyfold.engine.status.monitor import Monitor
from keyfold.plan.nodes import AppSpec
from keyfold.views.contract import ViewStore
from keyfold.views.none import NoViews

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def launch(held: HeldHome) -> Handle:
    """Compiles, checks and starts every table; returns when their queries run."""
    spec, home, spark, tell = held.spec, held.home, held.spark, held.options.tell
    cluster.require_shared_home(spark, session.kernel(spark), home.storage.uri())
    stored = home.read_plan()
    tell("tables")
    app = compiled_app.compile_tables(held, stored)
    compiled_app.check(held, stored, app)
    compiled_app.record_inputs(held, app)
    partitions = compiled_app.partitions_of(held, stored, app)
    inline_rows.check(spec, home)
    app.lookups.load()
    inline_rows.write(spec, home)
    running = RunningApp(app.shared, spark, home, held.lease, _open_views(held))
    try:
        tell("views")
        alignment.align_all(held, stored, app, running.store)
        alignment.record_plan(held, stored, app, partitions)
        if held.usual:
            with suppress(OSError):  # it only saves time
                compilation_record.record(home, held.settings, app.shared, app.tables, app.streams)
        tell("queries")
        AppQueries(held, app.shared, stored, partitions).start(running, app.recording, app.tables)
        return _accompany(held, running, app.lookups)
    except BaseException:
        running.stop(STOP_SECONDS)
        running.close()
        raise


def _open_views(held: HeldHome) -> ViewStore:
    return NoViews() if held.settings.views == "none" else held.home.views.open(read_only=False)


def _accompany(held: HeldHome, running: RunningApp, lookups: Lookups) -> Handle:
    """The handle of the app, with the threads that accompany its queries."""
    spec, feeds = held.spec, frozenset(held.options.feeds)
    limits = partial(_batch_limits, spec, feeds, held.spark)
    monitor = Monitor(spec.name, held.home, running.failures.all, lookups.status, limits)
    if held.options.recorded:
        return Handle(running, monitor, lookups, feeds)
    monitor.watch(running.queries, running.hooks, running.store, running.shared)
    lookups.watch()
    requests = Requests(held.home.local / "requests", running.savepoint)
    return Handle(running, monitor, lookups, feeds, (_watch_idle_tables(running), requests, lookups))


def _watch_idle_tables(running: RunningApp) -> IdleWatermarks:
    return IdleWatermarks(
        IdleTable(hook.spec, hook.home, running.queries[name], hook.idle)
        for name, hook in running.hooks.items()
        if isinstance(hook, TableHook) and hook.spec.idle_ms is not None
    )


def _batch_limits(spec: AppSpec, feeds: Collection[str], spark: SparkSession) -> dict[str, dict[str, int]]:
    """How much of each stream of files a batch reads at most."""
    own = (stream for stream in spec.streams if stream.name not in feeds)
    found = ((stream.name, batch_limit(stream.connector, spark.conf)) for stream in own)
    return {name: limit for name, limit in found if limit is not None}
