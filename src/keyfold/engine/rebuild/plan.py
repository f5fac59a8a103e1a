"""Plans rebuilds of tables: from which rows, which of these are missing, and why a table can't be rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration.migrate import Migrated
from keyfold.engine.rebuild.groups import groups, read_tables, readers
from keyfold.engine.recovery.definition_changes import TableChange
from keyfold.engine.sources import file_names
from keyfold.engine.sources.connectors import never_ends
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.errors import BadOption
from keyfold.plan import nodes, tree
from keyfold.plan.initial import InitialState
from keyfold.plan.nodes import AppSpec, Source

Origin = Literal["recorded", "source"]
"""Whether the rows of a stream come from its log or from its source."""


def plan_rebuild(
    spec: AppSpec,
    stored: StoredApp,
    tables: Sequence[Compiled],
    home: AppHome,
    *,
    origin: Origin | None,
    partial: bool,
) -> list[Migrated]:
    """Plans rebuilds; refuses impossible ones and, unless `partial`, those whose first rows are missing.

    `origin`: where all streams are read; by default a log, if it has all rows or keeps history.
    """
    known = stored.tables
    together = {table.spec.name for table in tables}
    for table in tables:
        name = table.spec.name
        if name not in known or home.table(name).planned_batch() is None:
            raise BadOption(
                f"{table.name} has no state yet", given=name, hint="start the app; it builds the table"
            )
        _refuse_alone(spec, stored, table, home, together)
        _refuse(table, known[name])
    planned = [_Group(spec, known, group, home, origin).plan(partial) for group in groups(tables)]
    return [one for group in planned for one in group]


@dataclass(frozen=True)
class _Group:
    """Tables that are rebuilt together: rows that one of them lacks, all its readers lack too."""

    spec: AppSpec
    known: Mapping[str, StoredTable]
    tables: Sequence[Compiled]
    home: AppHome
    asked: Origin | None

    def plan(self, partial: bool) -> list[Migrated]:
        streams = {s.name: s for table in self.tables for s in tree.sources(table.spec.input)}
        origins = {name: self._origin(stream) for name, stream in streams.items()}
        lost = {
            table.spec.name: [
                line
                for s in tree.sources(table.spec.input)
                for line in self._lost_rows(s, origins[s.name], table)
            ]
            for table in self.tables
        }
        gone = list(dict.fromkeys(line for lines in lost.values() for line in lines))
        if gone and not partial:
            names = ", ".join(table.name for table in self.tables)
            raise BadOption(
                f"{names} can't be rebuilt whole; nothing was changed",
                given="\n".join(gone),
                hint="--partial rebuilds from the existing rows; what was folded from others is lost",
            )
        logs = [self._log(name) for name, origin in origins.items() if origin == "recorded"]
        oldest = [next(log.after(totals(log).upto), None) for log in logs]
        since = max((one.at for one in oldest if one is not None), default=datetime.now(UTC))
        direct = frozenset(name for name, origin in origins.items() if origin == "source")
        return [
            Migrated(
                table,
                TableChange(
                    table.spec.name,
                    "migratable",
                    (*_effects(table, origins), *lost[table.spec.name]),
                    rebuilt=since.isoformat(),
                    sources=direct,
                    whole=not gone,
                ),
            )
            for table in self.tables
        ]

    def _log(self, stream: str) -> TableLog:
        return TableLog(self.home.stream_home(stream).log_files)

    def _reads_log(self, stream: str, table: Compiled) -> bool:
        return stream in self.known[table.spec.name].shared

    def _origin(self, stream: Source) -> Origin:
        reads_log = all(
            self._reads_log(stream.name, table)
            for table in self.tables
            if stream.name in {one.name for one in tree.queried_sources(self.spec, table.spec)}
        )
        has_log = reads_log and (stream.history_ms is not None or totals(self._log(stream.name)).upto < 0)
        if self.asked == "recorded" and not has_log:
            raise BadOption(
                f"stream {stream.name} has not recorded its rows",
                where=stream.site,
                given="--from recorded",
                hint="--from source",
            )
        return self.asked or ("recorded" if has_log else "source")

    def _lost_rows(self, stream: Source, origin: Origin, table: Compiled) -> list[str]:
        """The rows of a stream that are missing, or whose existence can't be verified."""
        if origin == "recorded":
            upto = totals(self._log(stream.name)).upto
            return [] if upto < 0 else [f"{stream.name}: rows up to batch {upto} are no longer in its log"]
        if stream.connector.kind == "rows":
            return []
        if stream.connector.kind != "files" or self._reads_log(stream.name, table):
            return [f"{stream.name}: whether its source still has all rows is not known"]
        read = file_names.read_files(self.home.table(table.spec.name).spark)
        names = [file.name for _, file in read if file.stream == stream.name]
        gone = [path for path, exists in table.files.locate(stream.name, names) if not exists]
        if not gone:
            return []
        return [f"{stream.name}: {len(gone):,} of {len(names):,} files are gone, such as {gone[0]}"]


def _effects(table: Compiled, origins: Mapping[str, Origin]) -> list[str]:
    found = [
        f"rows of {stream.name} from its {'log' if origins[stream.name] == 'recorded' else 'source'}"
        for stream in tree.sources(table.spec.input)
    ]
    found += [f"changes of {name}, which is rebuilt with it" for name in read_tables(table.spec)]
    by_arrival = [
        node
        for node in tree.reads(table.spec.input)
        if isinstance(node, nodes.Enrich) and node.as_of == "arrival"
    ]
    if by_arrival:
        found.append("rows are enriched in the order in which they are read now")
    return found


def _refuse_alone(
    spec: AppSpec, stored: StoredApp, table: Compiled, home: AppHome, together: set[str]
) -> None:
    """Refuses a table without its readers, or without the tables that it reads."""
    name, declared = table.spec.name, {one.name for one in spec.tables}
    others = [one for one in readers(spec, stored, home, name) if one not in together]
    gone = [one for one in others if one not in declared]
    missing = [one for one in read_tables(table.spec) if one not in together]
    if gone:
        _cant(
            table,
            f"{_all_have(gone)} read its changes, and the app no longer declares {_them(gone)}",
            "; ".join(f"keyfold drop {spec.name}.{one}" for one in gone) + "; or declare what was there",
        )
    if others:
        _cant(
            table,
            f"{_all_have(others)} read its changes, and would not learn of other ones",
            f"keyfold rebuild APP.py {name} --with-readers, which rebuilds all of them",
        )
    if missing:
        _cant(
            table,
            f"it reads the table {', '.join(missing)}, whose earlier changes are gone",
            f"keyfold rebuild APP.py {' '.join(missing)} --with-readers, which rebuilds all of them; or "
            f"keyfold reset {table.name}, after which it starts with the present rows",
        )


def _refuse(table: Compiled, old: StoredTable) -> None:
    """Refuses a table that can't start as it did, or whose rebuild would never end."""
    began, initial = old.began_with, table.spec.initial
    if began is not None and initial is None:
        _cant(table, f"it began with {began}, which is no longer declared", "put initial= back")
    if isinstance(initial, InitialState):
        _cant(
            table,
            f"it began with the state of savepoint {initial.savepoint}, not with rows",
            f"keyfold reset {table.name}, after which it begins with that savepoint again",
        )
    for stream in tree.sources(table.spec.input):
        if never_ends(stream.connector):
            _cant(table, f"stream {stream.name} never ends", "keyfold reset starts it from the first row")


def _all_have(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _cant(table: Compiled, why: str, hint: str) -> None:
    raise BadOption(
        f"{table.name} can't be rebuilt: {why}; nothing was changed", where=table.spec.site, hint=hint
    )
