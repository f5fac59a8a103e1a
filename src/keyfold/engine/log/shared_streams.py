"""Streams with a log of their own: which streams of an app have one, and which tables read it.

The choice is made when the first table of a stream begins, and recorded in app.json: a second table that is
added to a stream which is read directly reads it directly too. A table that begins later, when the log no
longer reaches back to the stream's first row, reads the source itself; with `history` it begins with the
recorded rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from keyfold.engine.log.readers import Use
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredStream
from keyfold.errors import StateMismatch
from keyfold.plan import sharing, tree
from keyfold.plan.nodes import AppSpec, Source, TableSpec


@dataclass(frozen=True)
class SharedStreams:
    """The streams whose logs are written, each with the tables that read it; one with history may have none.

    `chosen`: the shared streams, including those whose tables all read the source itself.
    """

    spec: AppSpec
    readers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()

    def __contains__(self, stream: str) -> bool:
        return stream in self.readers

    def __iter__(self) -> Iterator[Source]:
        return (stream for stream in self.spec.streams if stream.name in self.readers)

    def of(self, table: TableSpec) -> list[str]:
        """The streams whose log a table reads."""
        return [use.table for use in self.uses(table)]

    def uses(self, table: TableSpec) -> list[Use]:
        """The streams whose log a table reads, numbered after the tables that it reads."""
        first = len(tree.reads(table.input))
        return [
            Use(table.name, first + number, source.name, stream=True)
            for number, source in enumerate(tree.queried_sources(self.spec, table))
            if table.name in self.readers.get(source.name, ())
        ]

    def uses_of(self, stream: str) -> list[Use]:
        """All tables that read a stream's log."""
        return [use for table in self.spec.tables for use in self.uses(table) if use.table == stream]


def decide(spec: AppSpec, stored: StoredApp, home: AppHome) -> SharedStreams:
    """Which streams have a log: as recorded by earlier starts, otherwise as declared, or by default."""
    found, chosen = {}, set()
    for stream in spec.streams:
        tables = [t for t in spec.tables if stream in tree.queried_sources(spec, t)]
        begun = _tables_with_state(stream, [t.name for t in tables], stored, home)
        if _is_shared(spec, stream, begun, stored.streams.get(stream.name)):
            chosen.add(stream.name)
            reading = frozenset(
                t.name for t in tables if _reads_log(stream, t, t.name in begun, stored, home)
            )
            _refuse_realtime(stream, [t for t in tables if t.name in reading and t.latency is not None])
            if reading or stream.history_ms is not None:
                found[stream.name] = reading
    return SharedStreams(spec, found, frozenset(chosen))


def _tables_with_state(stream: Source, tables: list[str], stored: StoredApp, home: AppHome) -> list[str]:
    """The tables of a stream that have state, including those currently left out of the app."""
    left_out = [
        name
        for name, entry in stored.tables.items()
        if name not in tables and stream.name in {*entry.streams, *entry.shared}
    ]
    return [name for name in (*tables, *left_out) if home.table(name).planned_batch() is not None]


def _is_shared(spec: AppSpec, stream: Source, begun: list[str], recorded: StoredStream | None) -> bool:
    if not begun:
        return sharing.is_shared(spec, stream)
    asked, is_shared = sharing.declared_sharing(stream), recorded is not None and recorded.shared
    if asked is not None and asked != is_shared:
        _refuse_other_choice(spec.name, stream, begun, is_shared)
    return is_shared


def _reads_log(stream: Source, table: TableSpec, begun: bool, stored: StoredApp, home: AppHome) -> bool:
    """Whether a table reads the log; this never changes once it has begun."""
    if begun:
        return stream.name in stored.table(table.name).shared
    log = TableLog(home.stream_home(stream.name).log_files)
    return stream.history_ms is not None or totals(log).upto < 0


def _refuse_realtime(stream: Source, tables: list[TableSpec]) -> None:
    """Refuses tables that read the stream's log, batch by batch, but would now read its source."""
    for table in tables:
        raise StateMismatch(
            f"the table has read the log of stream {stream.name} since it began, and with latency='realtime' "
            "it would read the topic itself; nothing was changed",
            where=table.site,
            given=f"{table.app}.{table.name}",
            hint=f"leave latency out; or `keyfold reset {table.app}.{table.name}`, after which it starts "
            "from the first row",
        )


def _refuse_other_choice(app: str, stream: Source, begun: list[str], is_shared: bool) -> None:
    tables = [f"{app}.{name}" for name in begun]
    reads = "its log" if is_shared else "its source"
    given = "shared=False" if is_shared else "history=..." if stream.history_ms is not None else "shared=True"
    raise StateMismatch(
        f"{given} does not match the state: the tables of stream {stream.name} read {reads}; "
        "nothing was changed",
        where=stream.site,
        given=", ".join(tables),
        hint=f"leave out {given}; or reset the tables, after which they start from the first row: "
        + "; ".join(f"`keyfold reset {table}`" for table in tables),
    )
