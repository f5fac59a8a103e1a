"""Rebuilds a table from the rows of its streams, beside the old one.

It runs in a home of its own below the app's, with second names of the streams' logs: those that have one are
read from it, others from their source. `keyfold migrate` and `keyfold rebuild` then put it in the place of
the old table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from keyfold.engine import beside
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.definition_changes import TableChange, readers_of
from keyfold.engine.savepoint.capture import copy_files
from keyfold.engine.sources import file_names
from keyfold.engine.start import start
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.plan import formats, tree
from keyfold.plan.initial import InitialState
from keyfold.plan.nodes import AppSpec, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Origin = Literal["recorded", "source"]
"""Whether the rows of a stream come from its log or from its source."""


def rebuild(
    spark: SparkSession, spec: AppSpec, place: AppHome, compiled: Compiled, change: TableChange, feeds: Path
) -> dict[str, Any]:
    """Makes the table; returns what the switch has to know. `feeds`: a directory for empty inputs."""
    table = compiled.spec.name
    streams = tree.sources(compiled.spec.input)
    home = beside.home_of(place, table)
    below = str(home.path.relative_to(place.path))
    place.storage.delete(str(home.path.parent.relative_to(place.path)))
    for stream in streams:
        files = [file.name for file in place.storage.files(f"streams/{stream.name}")]
        copy_files(place.storage, files, f"streams/{stream.name}/", f"{below}/streams/{stream.name}/")
    home.write_plan({**(place.read_plan() or {}), "tables": {}})
    recorded = [one for one in streams if one.name not in change.sources]
    inputs = {one.name: feeds / one.name for one in recorded if one.connector.kind in ("rows", "kafka")}
    for directory in inputs.values():
        directory.mkdir(parents=True, exist_ok=True)
    table_spec, read = compiled.spec, []
    for stream in streams:
        # Alone, a table would not share a stream that it shares with others.
        direct = stream.name in change.sources
        read.append(replace(stream, shared=not direct, history_ms=None if direct else stream.history_ms))
        table_spec = replace(table_spec, input=tree.with_source(table_spec.input, read[-1]))
    beside.run(start, spark, place, spec, table_spec, read, feeds=inputs)
    if change.whole or change.sources:
        # Of what a source no longer has, the time is not known; the audit log has what was lost.
        return beside.prepared(place, table, {})
    assert change.rebuilt is not None
    began = KnownSince(datetime.fromisoformat(change.rebuilt), None).document()
    since = dict.fromkeys((name for name, _ in compiled.spec.columns), began)
    return beside.prepared(place, table, {"since": since})


def plan_rebuild(
    spec: AppSpec,
    stored: Mapping[str, Any],
    compiled: Compiled,
    place: AppHome,
    *,
    origin: Origin | None,
    partial: bool,
) -> TableChange:
    """How a table is rebuilt; refuses one that can't be, or, unless `partial`, whose first rows are gone.

    `origin`: where all of its streams are read; by default a log, where it has all rows or keeps history.
    """
    name, old = compiled.spec.name, (stored.get("tables") or {}).get(compiled.spec.name)
    if old is None or place.table(name).begun() is None:
        raise BadOption(
            f"{compiled.name} has no state yet", given=name, hint="start the app; it builds the table"
        )
    _refuse(spec, stored, compiled, place, old)
    origins, effects, lost, since = {}, [], [], []
    for stream in tree.sources(compiled.spec.input):
        log = TableLog(place.stream_home(stream.name).log_files)
        chosen = _origin(stream, stream.name in old.get("shared", ()), log, origin)
        origins[stream.name] = chosen
        first = next(log.after(totals(log).upto), None) if chosen == "recorded" else None
        since += [] if first is None else [first.at]
        effects.append(f"rows of {stream.name} from its {'log' if chosen == 'recorded' else 'source'}")
        lost += _lost(stream, chosen, log, compiled, place, stream.name in old.get("shared", ()))
    if lost and not partial:
        raise BadOption(
            f"{compiled.name} can't be rebuilt whole; nothing was changed",
            given="\n".join(lost),
            hint="--partial rebuilds it from the rows that are there; what was folded from others is lost",
        )
    return TableChange(
        name,
        "migratable",
        (*effects, *lost),
        rebuilt=max(since, default=datetime.now(UTC)).isoformat(),
        sources=frozenset(one for one, chosen in origins.items() if chosen == "source"),
        whole=not lost,
    )


def _refuse(
    spec: AppSpec, stored: Mapping[str, Any], compiled: Compiled, place: AppHome, old: Mapping[str, Any]
) -> None:
    name, spec_of = compiled.name, compiled.spec
    others = readers_of(spec, stored, spec_of.name).names
    tables = list(dict.fromkeys(node.table for node in tree.reads(spec_of.input)))
    began = (old.get("initial") or {}).get("declared")
    why = hint = None
    if others:
        why = f"{', '.join(others)} have read its changes, and would not learn of other ones"
        hint = f"keyfold reset {name} --with-readers, after which all of them start from the first row"
    elif tables:
        why = f"it reads the table {', '.join(tables)}, whose earlier changes are gone"
        hint = f"keyfold reset {name}, after which it begins with the rows that are there now"
    elif place.remote is not None:
        why, hint = "its home is not on a local disk", f"keyfold reset {name}"
    elif began is not None and spec_of.initial is None:
        why, hint = f"it began with {began}, which is no longer declared", "put initial= back for the rebuild"
    elif isinstance(spec_of.initial, InitialState):
        why = f"it began with the state of savepoint {spec_of.initial.savepoint}, not with rows"
        hint = f"keyfold reset {name}, after which it begins with that savepoint again"
    if why is not None:
        raise BadOption(f"{name} can't be rebuilt: {why}; nothing was changed", where=spec_of.site, hint=hint)
    for stream in tree.sources(spec_of.input):
        if formats.never_ends(stream.connector.format):
            raise BadOption(
                f"{name} can't be rebuilt: stream {stream.name} never ends",
                where=stream.site,
                given=stream.name,
            )


def _origin(stream: Source, reads_log: bool, log: TableLog, asked: Origin | None) -> Origin:
    has_log = reads_log and (stream.history_ms is not None or totals(log).upto < 0)
    if asked == "recorded" and not has_log:
        raise BadOption(
            f"stream {stream.name} has not recorded its rows",
            where=stream.site,
            given="--from recorded",
            hint="--from source",
        )
    return asked or ("recorded" if has_log else "source")


def _lost(
    stream: Source, origin: Origin, log: TableLog, compiled: Compiled, place: AppHome, reads_log: bool
) -> list[str]:
    """What of a stream's rows is gone, or can't be known to be there."""
    if origin == "recorded":
        upto = totals(log).upto
        return [] if upto < 0 else [f"{stream.name}: rows up to batch {upto} are no longer in its log"]
    if stream.connector.kind == "rows":
        return []
    if stream.connector.kind != "files" or reads_log:
        return [f"{stream.name}: whether its source still has all rows is not known"]
    read = file_names.read_files(place.table(compiled.spec.name).spark)
    names = [file.name for _, file in read if file.stream == stream.name]
    gone = [path for path, exists in compiled.files.located(stream.name, names) if not exists]
    if not gone:
        return []
    return [f"{stream.name}: {len(gone):,} of {len(names):,} files are gone, such as {gone[0]}"]
