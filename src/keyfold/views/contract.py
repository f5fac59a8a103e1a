"""The interface of a view store, which keeps the latest row of each key and the position of each view.

A batch reaches a store as Arrow record batches: `_op` (upsert, final or delete), then the key columns, then
the other columns, named and ordered as in the `ViewSchema`. Its rows and position become visible together.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from keyfold.errors import QueryError, RunError, choice, did_you_mean
from keyfold.views import arrow as pa
from keyfold.views.query.filters import Filter
from keyfold.views.schema import Column, ViewSchema

__all__ = ["BatchWriter", "Column", "OrderBy", "Position", "ViewSchema", "ViewStore", "Where"]

Where = str | Mapping[str, Any] | Filter | None
OrderBy = str | Sequence[str] | None
_POLL: Final = 0.005
_SLOWEST_POLL: Final = 0.1


@dataclass(frozen=True)
class Position:
    """How far a view is: the last batch, when it was committed, and its watermark."""

    batch: int
    at: datetime
    watermark: datetime | None


class BatchWriter(ABC):
    """Receives the changes of one batch, or of several that follow each other."""

    replayed: bool = False
    """Whether the view has applied this batch before, so that its changes are ignored."""

    @abstractmethod
    def apply(self, changes: pa.RecordBatch) -> None:
        """Adds changes, in order; they become visible at the end of the batch."""

    @abstractmethod
    def next(self, position: Position) -> None:
        """Continues with a later batch, which is committed together with those before it."""


class ViewStore(ABC):
    """The views of one app's tables. Thread-safe."""

    @abstractmethod
    def create(self, schema: ViewSchema) -> None:
        """Creates an empty view unless it exists; an existing one with other columns is a `RunError`."""

    @abstractmethod
    def schema(self, table: str) -> ViewSchema:
        """The schema of a view; `QueryError` not_found if it doesn't exist."""

    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The names of all views, sorted."""

    @abstractmethod
    def batch(
        self, table: str, batch_id: int, at: datetime, watermark: datetime | None = None
    ) -> AbstractContextManager[BatchWriter]:
        """A writer; rows and position are committed together at the end, nothing on an exception."""

    @abstractmethod
    def rebuild(
        self,
        table: str,
        schema: ViewSchema,
        record_batches: Iterable[pa.RecordBatch],
        batch_id: int,
        at: datetime,
        watermark: datetime | None = None,
        keep: Filter | None = None,
    ) -> None:
        """Replaces schema, rows and position of a view in one transaction; creates the view if needed.

        With `keep`, rows that match it stay, and the columns must not change.
        """

    @abstractmethod
    def get(self, table: str, key: Sequence[Any]) -> dict[str, Any] | None:
        """The row of a key: key columns, other columns, `_batch`, `_at`."""

    @abstractmethod
    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of one snapshot, by key or in the given order; wrong arguments raise at once."""

    @abstractmethod
    def count(self, table: str, where: Where = None) -> int | None:
        """The number of rows; None if the store can't tell. Takes time in proportion to that number."""

    @abstractmethod
    def position(self, table: str) -> Position | None:
        """The position of a view; None before its first batch, or if the view doesn't exist."""

    @abstractmethod
    def drop(self, table: str) -> None:
        """Removes a view, if it exists."""

    def copy_to(self, path: Path) -> bool:
        """Writes a copy of all views, as of one moment, into a file; False if this store has no such copy."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Releases files and connections."""

    def wait(self, table: str, at_least: int, timeout: float = 0) -> Position:
        """The position once it reaches a batch; `QueryError` behind_bound after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        pause = _POLL
        while True:
            position = self.position(table)
            if position is not None and position.batch >= at_least:
                return position
            left = deadline - time.monotonic()
            if left <= 0:
                raise _behind(table, position, at_least, timeout)
            # Polling also notices batches that another process commits; a condition variable would not.
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _SLOWEST_POLL)


def _behind(table: str, position: Position | None, at_least: int, timeout: float) -> QueryError:
    at = "has no batch yet" if position is None else f"is at batch {position.batch}"
    after = f" after {timeout:g} s" if timeout else ""
    return QueryError(
        f"the view {at}{after}, behind batch {at_least}",
        reason="behind_bound",
        where=table,
        given=f"at_least={at_least}",
        hint="wait longer, or ask for an earlier batch",
    )


def unknown_table(table: str, names: Sequence[str]) -> QueryError:
    """The error of a read from a view that doesn't exist."""
    hint = did_you_mean(table, names, choice(names) if names else "there are no views yet")
    return QueryError(f"unknown table {table!r}", reason="not_found", hint=hint)


def require_same_columns(existing: ViewSchema, given: ViewSchema) -> None:
    """Refuses a schema whose rows an existing view can't hold."""
    difference = existing.difference(given)
    if existing.table != given.table:
        difference = f"the view is named {existing.table}, the table {given.table}"
    if difference is not None:
        hint = "give the table another name, or rebuild its view"
        raise RunError(
            "the view has other columns than the table", given=difference, hint=hint, table=given.table
        )
