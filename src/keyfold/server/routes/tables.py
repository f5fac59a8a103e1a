"""`/api/apps/{app}/tables/{table}` and the batches of its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import HomeUnusable
from keyfold.read.batch_times import BatchTime
from keyfold.read.metrics import Failure, TableStatus
from keyfold.read.patterns import Pattern
from keyfold.read.positions import Follower
from keyfold.read.state_sizes import StateSizes
from keyfold.server import parameters
from keyfold.server.answers import OfTable
from keyfold.server.route import OF_TABLE, Call, Route
from keyfold.views.contract import Column
from keyfold.views.keys import window_of


@dataclass(frozen=True)
class ColumnLine:
    """A column of a table: its name, and its type as Spark SQL has it."""

    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class TableDocument(OfTable):
    """A table: its columns, its status, and how far its followers are."""

    help: str
    keys: Sequence[ColumnLine]
    columns: Sequence[ColumnLine]
    """Those beside the key; every row also has `_batch` and `_at`, the batch that wrote it and its time."""
    windowed: bool
    """Whether the key ends with window_start and window_end."""
    order: Sequence[str]
    """The columns that order rows without `order_by`; then by key."""
    status: TableStatus | None
    """What `keyfold status --json` has of the table."""
    followers: Sequence[Follower] | None
    """null if the app's files are on another file system than its views."""


@dataclass(frozen=True, kw_only=True)
class BatchList(OfTable):
    """The newest batches of a log, oldest first, as `keyfold log show --json` prints them."""

    removed_upto: int
    """The batch up to which changes were removed, since all followers have read them; -1 before that."""
    removed: Mapping[str, int]
    """How many rows of each kind these batches had."""
    total: int
    """How many batches the log has."""
    batches: Sequence[Mapping[str, Any]]
    times: Sequence[BatchTime]
    """Where the time of the newest batches went, oldest first; also of batches that have left the log."""
    failures: Sequence[Failure]
    """What has stopped the table."""


@dataclass(frozen=True, kw_only=True)
class StateDocument(OfTable):
    """The size of a table's state, and what savepoints have of it."""

    state: StateSizes


@dataclass(frozen=True, kw_only=True)
class PatternDocument(OfTable):
    """The pattern whose matches are a table's rows."""

    pattern: Pattern


def get_table(call: Call) -> TableDocument:
    """A table: its columns with their types, its status and its position, and those of its followers."""
    schema, found = call.table.schema, call.app.status().tables
    followers = None
    with suppress(HomeUnusable):
        followers = call.app.progress(call.view.table).followers
    return TableDocument(
        **call.view.fields(),
        help=schema.help,
        keys=_lines(schema.keys),
        columns=_lines(schema.columns),
        windowed=window_of(schema) is not None,
        order=schema.order,
        status=found.get(call.view.table),
        followers=followers,
    )


def _lines(columns: Sequence[Column]) -> list[ColumnLine]:
    return [ColumnLine(column.name, str(column.type)) for column in columns]


def list_batches(call: Call) -> BatchList:
    """The newest batches of a table's log: when, how many rows of each kind, how many bytes, how long.

    The log may be ahead of the view, of which `batch` tells.
    """
    found = call.app.batches(call.view.table, call.values["limit"])
    return BatchList(
        **call.view.fields(),
        **found.document(),
        total=found.total,
        times=call.app.batch_times(call.view.table)[-call.values["limit"] :],
        failures=[one for one in call.app.status().failures if one.table == call.view.table],
    )


def get_state(call: Call) -> StateDocument:
    """The size of a table's state by partition, how even it is, and the savepoints that have the table.

    The sizes are those of files on disk, with the earlier versions that Spark retains: the state itself is
    not read. `keyfold state size` reads it, and names its largest keys.
    """
    return StateDocument(**call.view.fields(), state=call.app.state_sizes(call.view.table))


def get_pattern(call: Call) -> PatternDocument:
    """The pattern of a table, its steps and which may follow which; 404 if the table has none.

    Matches are the table's rows, each with `started` and `ended`.
    """
    return PatternDocument(**call.view.fields(), pattern=call.app.pattern(call.view.table))


_LIMIT: Final = parameters.integer(
    "limit", "How many batches at most: the newest ones.", least=1, most=10_000, default=100
)
ROUTES: Final = (
    Route("get_table", OF_TABLE, get_table, TableDocument, role="reader"),
    Route("get_pattern", f"{OF_TABLE}/pattern", get_pattern, PatternDocument, role="reader"),
    Route("get_state", f"{OF_TABLE}/state", get_state, StateDocument, role="reader"),
    Route("list_batches", f"{OF_TABLE}/batches", list_batches, BatchList, (_LIMIT,), role="reader"),
)
