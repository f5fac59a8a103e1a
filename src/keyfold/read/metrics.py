"""The status that a running app publishes: metrics of each table, stream and lookup, and its failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyfold.engine.storage.layout import AppHome
from keyfold.read.documents import LEFT_OUT_IF_EMPTY, MOMENT, Document, by_name, many, one


@dataclass(frozen=True, kw_only=True)
class Rejecting(Document):
    """A batch of which nearly all rows were rejected for one reason."""

    batch: int
    rejected: int
    share: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class SlowestPartition(Document):
    """The partition whose newest event time holds a watermark back, and the idle ones beside it."""

    stream: str
    partition: str
    newest: datetime = field(metadata=MOMENT)
    since: datetime = field(metadata=MOMENT)
    idle: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Work(Document):
    """What a query has read and how long its batches took, in all runs that have published it."""

    rows: int = 0
    seconds: float = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    """The seconds of each part of a batch: offsets, plan, fold, commit, other."""


@dataclass(frozen=True, kw_only=True)
class Failure(Document):
    """What stopped a query, and when it was seen; `table` is None if it stopped the whole app."""

    at: datetime = field(metadata=MOMENT)
    table: str | None
    batch: int | None
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class LookupStatus(Document):
    """The rows of a lookup, and the error of the last reload."""

    rows: int
    loaded: datetime | None = field(metadata=MOMENT)
    version: int
    error: str | None


@dataclass(frozen=True, kw_only=True)
class TableStatus(Document):
    """The metrics of a table. Rows and rows per second are of the last run, all other counts of all runs."""

    running: bool = False
    batch: int | None = None
    at: datetime | None = field(default=None, metadata=MOMENT)
    rows: int | None = None
    rows_per_second: float | None = None
    batch_ms: int | None = None
    keys: int | None = None
    keys_at: datetime | None = field(default=None, metadata=MOMENT)
    state_bytes: int | None = None
    watermark: datetime | None = field(default=None, metadata=MOMENT)
    lag_seconds: float | None = None
    batch_done: float | None = None
    files_left: int | None = None
    done: float | None = None
    messages_left: int | None = None
    messages_left_by_partition: Mapping[str, int] = field(default_factory=dict)
    watermark_held_by: SlowestPartition | None = field(default=None, metadata=one(SlowestPartition))
    late: int | None = None
    rejected: int | None = None
    rejecting: Rejecting | None = field(default=None, metadata=one(Rejecting))
    all_rejected: bool = False
    duplicates: int | None = None
    dropped_partials: int | None = None
    latency_seconds: float | None = None
    """From the event time of the newest row that the last batch read until the batch was committed."""
    all_runs: Work | None = field(default=None, metadata=one(Work))
    since: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, metadata=LEFT_OUT_IF_EMPTY)
    """Since when columns that a migration added cover rows, as app.json records it."""
    initial: Mapping[str, Any] | None = field(default=None, metadata=LEFT_OUT_IF_EMPTY)
    """What the table began with, if not with its stream, as app.json records it."""


@dataclass(frozen=True, kw_only=True)
class StreamStatus(Document):
    """The metrics of a stream that has a log."""

    running: bool = False
    batch: int | None = None
    rows: int | None = None
    rows_per_second: float | None = None
    batch_ms: int | None = None
    batch_done: float | None = None
    files_left: int | None = None
    done: float | None = None
    messages_left: int | None = None
    messages_left_by_partition: Mapping[str, int] = field(default_factory=dict)
    recorded: int | None = None
    rejected: int | None = None
    rejecting: Rejecting | None = field(default=None, metadata=one(Rejecting))
    all_rejected: bool = False
    all_runs: Work | None = field(default=None, metadata=one(Work))


@dataclass(frozen=True, kw_only=True)
class RunStatus(Document):
    """The status that a run of an app publishes in status.json, or did last."""

    app: str = ""
    home: str = ""
    pid: int | None = None
    started: datetime | None = field(default=None, metadata=MOMENT)
    at: datetime | None = field(default=None, metadata=MOMENT)
    streams: Mapping[str, StreamStatus] = field(default_factory=dict, metadata=by_name(StreamStatus))
    tables: Mapping[str, TableStatus] = field(default_factory=dict, metadata=by_name(TableStatus))
    lookups: Mapping[str, LookupStatus] = field(default_factory=dict, metadata=by_name(LookupStatus))
    batch_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How much of a stream of files a batch reads at most: files, bytes, or both."""
    failures: list[Failure] = field(default_factory=list, metadata=many(Failure))

    def as_stopped(self) -> RunStatus:
        """The same after the run has ended."""
        streams = {name: stream.replace(running=False) for name, stream in self.streams.items()}
        tables = {name: table.replace(running=False) for name, table in self.tables.items()}
        return self.replace(streams=streams, tables=tables)


def read_status(home: AppHome) -> RunStatus:
    """The newest status of an app; an empty one if there is none that can be read."""
    try:
        return RunStatus.read(home.read_status())
    except (ValueError, TypeError, AttributeError):
        return RunStatus.read({})
