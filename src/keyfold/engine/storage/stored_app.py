"""The content of app.json: what the last start of an app recorded of it, of its streams and of its tables.

Files of earlier versions lack some of it, which is then empty here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from keyfold.engine.storage.known_since import KnownSince

Described = Mapping[str, Any]
"""A stream or table as it was declared, as `keyfold describe --json` shows it."""


@dataclass(frozen=True)
class Rename:
    """A table's old name. The time makes it another rename than one of the same name at another time."""

    was: str
    at: str


@dataclass(frozen=True)
class StoredTable:
    """What is recorded of a table."""

    fingerprint: str = ""
    meaning: Mapping[str, str] = field(default_factory=dict)
    """The parts of the definition that state depends on; see `engine/recovery/definition.py`."""
    streams: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    """The tables that it reads."""
    directories: Mapping[str, str] = field(default_factory=dict)
    """The directories that it reads, by stream."""
    state: Any = None
    """The schema of the state, in Spark's JSON."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """How the state is kept: its kind, its keys, its fields and what each is of."""
    shared: tuple[str, ...] = ()
    """The streams whose logs it reads."""
    partitions: int | None = None
    since: Mapping[str, KnownSince] = field(default_factory=dict)
    """Since when columns that were added cover rows."""
    initial: Mapping[str, Any] | None = None
    """What it began with, if not with its stream."""
    renamed: tuple[Rename, ...] = ()
    """Its renames, oldest first."""

    @property
    def began_with(self) -> str | None:
        """What it began with, as it was declared."""
        return (self.initial or {}).get("declared")

    @property
    def boundary(self) -> str | None:
        """The event time from which on it takes the rows of its stream."""
        return (self.initial or {}).get("until")

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StoredTable:
        """Reads an entry."""
        partitions = found.get("partitions")
        return cls(
            found.get("fingerprint") or "",
            found.get("meaning") or {},
            tuple(found.get("streams") or ()),
            tuple(found.get("tables") or ()),
            found.get("directories") or {},
            found.get("state"),
            found.get("layout") or {},
            tuple(found.get("shared") or ()),
            None if partitions is None else int(partitions),
            {name: KnownSince.from_json(one) for name, one in (found.get("since") or {}).items()},
            found.get("initial") or None,
            tuple(Rename(one["from"], one["at"]) for one in found.get("renamed") or ()),
        )

    def to_json(self) -> dict[str, Any]:
        """The entry as data."""
        optional = {
            "partitions": self.partitions,
            "since": {name: one.document() for name, one in self.since.items()} or None,
            "initial": self.initial,
            "renamed": [{"from": one.was, "at": one.at} for one in self.renamed] or None,
        }
        return {
            "fingerprint": self.fingerprint,
            "meaning": dict(self.meaning),
            "streams": list(self.streams),
            "tables": list(self.tables),
            "directories": dict(self.directories),
            "state": self.state,
            "layout": dict(self.layout),
            "shared": list(self.shared),
            **_without_none(optional),
        }

    def followed_by(self, new: StoredTable) -> StoredTable:
        """The entry of a new start, with what is recorded once: added columns, first rows, renames."""
        columns = {part.removeprefix("column:") for part in new.meaning if part.startswith("column:")}
        since = {name: at for name, at in self.since.items() if name in columns}
        return replace(new, since=since, initial=self.initial, renamed=self.renamed)


@dataclass(frozen=True)
class StoredLog:
    """What is recorded of a stream's log."""

    history: int | None = None
    """How long rows stay in it at least, in milliseconds."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The types of its columns."""
    directories: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredStream:
    """What is recorded of a stream."""

    shared: bool = False
    log: StoredLog | None = None
    """Its log, if that was ever written."""

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StoredStream:
        """Reads an entry."""
        log = None
        if found.keys() - {"shared"}:
            columns, directories = found.get("columns") or {}, found.get("directories") or {}
            log = StoredLog(found.get("history"), columns, directories)
        return cls(bool(found.get("shared")), log)

    def to_json(self) -> dict[str, Any]:
        """The entry as data."""
        log = {} if self.log is None else {name: getattr(self.log, name) for name in _LOG}
        return {"shared": self.shared, **log}


_LOG: Final = ("history", "columns", "directories")


@dataclass(frozen=True)
class StoredApp:
    """What is recorded of an app; nothing before its first start."""

    tables: Mapping[str, StoredTable] = field(default_factory=dict)
    """All that have state, also those that the app no longer declares."""
    streams: Mapping[str, StoredStream] = field(default_factory=dict)
    declared: Mapping[str, Any] | None = None
    """The declaration as the user wrote it."""
    layout: int | None = None
    spark: str | None = None
    app: str | None = None
    exists: bool = False
    """Whether there is a file."""

    @property
    def declared_tables(self) -> dict[str, Described]:
        """The tables that the last start declared, by name."""
        return {one["name"]: one for one in (self.declared or {}).get("tables") or ()}

    @property
    def declared_streams(self) -> dict[str, Described]:
        """The streams that the last start declared, by name."""
        return {one["name"]: one for one in (self.declared or {}).get("streams") or ()}

    def table(self, name: str) -> StoredTable:
        """What is recorded of a table; an empty entry if there is none."""
        return self.tables.get(name) or StoredTable()

    def log(self, stream: str) -> StoredLog:
        """What is recorded of a stream's log; empty if there is none."""
        found = self.streams.get(stream)
        return (found and found.log) or StoredLog()

    def with_tables(self, tables: Mapping[str, StoredTable]) -> StoredApp:
        """The same with these tables."""
        return replace(self, tables=tables)

    def with_declared(self, tables: Mapping[str, Described]) -> StoredApp:
        """The same with these tables in its declaration, if one is recorded."""
        if self.declared is None:
            return self
        return replace(self, declared={**self.declared, "tables": list(tables.values())})

    def followed_by(self, new: StoredApp) -> StoredApp:
        """The record of a new start; what the app no longer declares stays, since its files remain."""
        streams = {
            name: replace(one, log=one.log or self.streams.get(name, one).log)
            for name, one in new.streams.items()
        }
        tables = {name: self.table(name).followed_by(one) for name, one in new.tables.items()}
        return replace(new, streams={**self.streams, **streams}, tables={**self.tables, **tables})

    @classmethod
    def from_json(cls, found: Any) -> StoredApp:
        """Reads the content of the file; a `ValueError` if it is not that of one."""
        if not isinstance(found, dict) or not isinstance(found.get("tables"), dict):
            raise ValueError("it has no tables")
        return cls(
            {name: StoredTable.from_json(one or {}) for name, one in found["tables"].items()},
            {name: StoredStream.from_json(one) for name, one in (found.get("streams") or {}).items()},
            found.get("declared") or None,
            found.get("layout"),
            found.get("spark"),
            found.get("app"),
            exists=True,
        )

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        optional = {"layout": self.layout, "spark": self.spark, "app": self.app, "declared": self.declared}
        return {
            **_without_none(optional),
            "streams": {name: one.to_json() for name, one in self.streams.items()},
            "tables": {name: one.to_json() for name, one in self.tables.items()},
        }


def _without_none(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in found.items() if one is not None}
