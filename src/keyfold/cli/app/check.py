"""Checks the tables of an app against Spark and the state on disk, without running them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyfold.engine.compile.compiled import Compiled
    from keyfold.engine.compile.stream import CompiledStream
    from keyfold.engine.compile.table import Analysis
    from keyfold.engine.recovery.compilation_record import RecordedApp
    from keyfold.engine.storage.layout import AppHome
    from keyfold.engine.storage.stored_app import StoredApp
    from keyfold.plan.nodes import AppSpec


@dataclass(frozen=True)
class Finding:
    """The result for one table: its schema and fingerprint, and its error."""

    table: str
    state: str | None = None
    fingerprint: str | None = None
    keys: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    error: Exception | None = None


def empty_feeds(spec: AppSpec, directory: Path) -> dict[str, Path]:
    """Empty directories for streams of inline rows and of topics: analysis needs columns, not the rows."""
    feeds = {s.name: directory / s.name for s in spec.streams if s.connector.kind in ("rows", "kafka")}
    for feed in feeds.values():
        feed.mkdir(parents=True)
    return feeds


def findings_of(
    spark: SparkSession, spec: AppSpec, feeds: dict[str, Path], stored: StoredApp, home: AppHome
) -> list[Finding]:
    """What Spark and the state on disk say of each table. Nothing is run, and nothing is written."""
    from keyfold.engine import session
    from keyfold.engine.compile.stream import compile_streams, recorded_streams
    from keyfold.engine.compile.table import Analysis, analyze, build
    from keyfold.engine.compile.upstream import Upstream
    from keyfold.engine.jvm import process
    from keyfold.engine.log import shared_streams
    from keyfold.engine.lookups.registry import Lookups
    from keyfold.engine.recovery import stream_definition

    # An error is reported for its table, and the other tables are checked all the same.
    sides = Lookups(spark, session.kernel(spark))
    upstream = Upstream(spec, {})
    shared = shared_streams.decide(spec, stored, home)
    analyzed: dict[str, Analysis | Exception] = {}
    streams: dict[str, CompiledStream] = {}
    for table in spec.tables:
        try:
            missing = [name for name in shared.of(table) if name not in streams]
            for name, stream in compile_streams(spark, shared, feeds, only=missing).items():
                stream_definition.check(spec.name, stored, stream, home)
                streams[name] = stream
            recorded = recorded_streams(shared, streams, table, None)
            analyzed[table.name] = analyze(spark, table, feeds, sides, upstream, recorded=recorded)
        except Exception as error:
            if process.is_java_end(error):
                raise
            analyzed[table.name] = error
    good = [found for found in analyzed.values() if isinstance(found, Analysis)]
    return [
        Finding(name, error=found)
        if isinstance(found, Exception)
        else _finding(spec, name, partial(build, found, good), stored, home)
        for name, found in analyzed.items()
    ]


def findings_recorded(app: RecordedApp, stored: StoredApp, home: AppHome) -> list[Finding]:
    """The same of an app that Spark has compiled earlier."""
    return [_check_recorded(app, table, stored, home) for table in app.tables]


def _check_recorded(app: RecordedApp, table: Compiled, stored: StoredApp, home: AppHome) -> Finding:
    from keyfold.engine.recovery import stream_definition

    name, spec = table.spec.name, app.shared.spec
    try:
        for stream in app.shared.of(table.spec):
            stream_definition.check(spec.name, stored, app.streams[stream], home)
    except Exception as error:
        return Finding(name, error=error)
    return _finding(spec, name, lambda: table, stored, home)


def _finding(
    spec: AppSpec,
    name: str,
    compiled_now: Callable[[], Compiled],
    stored: StoredApp,
    home: AppHome,
) -> Finding:
    from keyfold.engine.jvm import process
    from keyfold.engine.recovery import definition, definition_check

    found = Finding(name)
    try:
        compiled = compiled_now()
        found = Finding(
            name,
            state="differs" if _has_state(name, stored, home) else "new",
            fingerprint=definition.fingerprint(definition.meaning_of(compiled)),
            keys=tuple((column.name, str(column.type)) for column in compiled.view.keys),
            columns=tuple((column.name, str(column.type)) for column in compiled.view.columns),
        )
        definition_check.check(spec, stored, compiled, home)
        require_whole(compiled, home)
        definition_check.check_log(compiled, home.table(name))
    except Exception as error:
        if process.is_java_end(error):
            raise
        return replace(found, error=error)
    return replace(found, state="fits") if found.state == "differs" else found


def require_whole(compiled: Compiled, home: AppHome) -> None:
    """Refuses a table of which a start would find something missing; the app may run."""
    from keyfold.engine.recovery import damage, view_rebuild

    damage.check(compiled.spec.app, compiled.spec.name, home.table(compiled.spec.name))
    view_rebuild.require_checkpoint(compiled, home)


def _has_state(table: str, stored: StoredApp, home: AppHome) -> bool:
    return table in stored.tables or home.table(table).planned_batch() is not None
