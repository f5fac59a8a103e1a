"""Compiles the tables and streams of an app and checks them against the state on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keyfold.engine import session
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream, compile_streams
from keyfold.engine.compile.table import compile_app
from keyfold.engine.log import shared_streams
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.realtime import start as realtime
from keyfold.engine.recovery import damage, definition_check, lost_messages, stream_definition
from keyfold.engine.sources import initial_files, inline_rows
from keyfold.engine.sources.kafka import TopicOffsets
from keyfold.engine.sources.topic_wait import wait_for_topics
from keyfold.engine.startup.home import HeldHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.plan.nodes import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class CompiledApp:
    """The tables of an app as Spark runs them, and what they read."""

    shared: SharedStreams
    tables: Sequence[Compiled]
    streams: Mapping[str, CompiledStream]
    """Those that have a log."""
    recording: Sequence[CompiledStream]
    """Those whose log this start writes: none if the tables read what is recorded."""
    topics: Mapping[str, TopicOffsets]
    """The topics that streams read, by stream."""
    lookups: Lookups


def compile_tables(held: HeldHome, stored: StoredApp) -> CompiledApp:
    """Compiles the app and writes nothing. `stored`: the plan of earlier starts."""
    spec, home, spark = held.spec, held.home, held.spark
    topics = wait_for_topics(spark, spec, held.options.feeds)
    feeds: dict[str, str | Path] = {**inline_rows.directories(spec, home), **held.options.feeds}
    lookups = Lookups(spark, session.kernel(spark))
    shared = shared_streams.decide(spec, stored, home)
    streams = compile_streams(spark, shared, feeds)
    begins = initial_files.boundaries(stored)
    tables = compile_app(spark, spec, feeds, home, lookups, shared, streams, begins)
    recording = () if held.options.recorded else tuple(streams.values())
    return CompiledApp(shared, tables, streams, recording, topics, lookups)


def check(held: HeldHome, stored: StoredApp, app: CompiledApp) -> None:
    """Refuses streams and tables that don't fit what is on disk, and positions that no longer exist."""
    spec, app_home, topics = held.spec, held.home, app.topics
    for stream in app.recording:
        stream_definition.check(spec.name, stored, stream, app_home)
        home = app_home.stream_home(stream.spec.name)
        lost_messages.check(spec.name, stream.spec.name, _sources(held, app, stream.rows), home, topics)
    for table in app.tables:
        home = app_home.table(table.spec.name)
        definition_check.check(spec, stored, table, app_home)
        damage.check(spec.name, table.spec.name, home)
        definition_check.check_log(table, home)
        lost_messages.check(spec.name, table.spec.name, _sources(held, app, table.changes), home, topics)


def record_inputs(held: HeldHome, app: CompiledApp) -> None:
    """Records which topics positions are of, and where files are."""
    for stream in app.recording:
        home = held.home.stream_home(stream.spec.name)
        lost_messages.record(_sources(held, app, stream.rows), home, app.topics)
    for table in app.tables:
        home = held.home.table(table.spec.name)
        lost_messages.record(_sources(held, app, table.changes), home, app.topics)
        home.spark.relocate()
        for name, clock in table.clocks.items():
            if name in app.topics:
                clock.retain(app.topics[name].partitions)


def _sources(held: HeldHome, app: CompiledApp, query: DataFrame) -> list[Source | None]:
    """The stream of topics at each position of a query's offset log; None at those of other sources."""
    if not app.topics:
        return []
    streams = {stream.name: stream for stream in held.spec.streams}
    names = session.kernel(held.spark).topicStreams(query._jdf)
    return [None if name is None else streams[name] for name in names]


def partitions_of(held: HeldHome, stored: StoredApp, app: CompiledApp) -> dict[str, int]:
    """The number of state partitions of each table."""
    found = {table.spec.name: _fixed_partitions(held, stored, table) for table in app.tables}
    fixed = {name: number for name, number in found.items() if number is not None}
    fast = realtime.partitions(held.spark, held.spec.name, app.tables, fixed, app.topics)
    default = int(held.spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return {**dict.fromkeys(found, default), **fixed, **fast}


def _fixed_partitions(held: HeldHome, stored: StoredApp, table: Compiled) -> int | None:
    """The number of state partitions: that of the checkpoint, else of the plan, else as declared."""
    fixed = held.home.table(table.spec.name).spark.partitions()
    if fixed is not None:
        return fixed
    known = stored.table(table.spec.name).partitions
    return table.spec.partitions if known is None else known
