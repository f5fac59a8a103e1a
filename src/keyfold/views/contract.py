"""What a store of views must do: keep the newest row of each key, and the batch they belong to.

Batches reach a store as Arrow record batches: `_op` (upsert, final or delete), then the key columns, then
the others, named and ordered as in the `ViewSchema`. A batch's rows and position become visible together.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from keyfold.errors import QueryError
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
    """How far a view is: the batch, when that batch was committed, and the watermark it ran with."""

    batch: int
    at: datetime
    watermark: datetime | None


class BatchWriter(ABC):
    """Takes the changes of one batch."""

    replayed: bool = False
    """Whether the view had this batch already, so that what comes is left out."""

    @abstractmethod
    def apply(self, changes: pa.RecordBatch) -> None:
        """Adds changes, in order; they become visible when the batch ends."""


class ViewStore(ABC):
    """Views of the tables of one app. Safe to use from several threads."""

    @abstractmethod
    def create(self, schema: ViewSchema) -> None:
        """Makes an empty view unless it is there; one with other columns is refused with a `RunError`."""

    @abstractmethod
    def schema(self, table: str) -> ViewSchema:
        """The columns of a view; `QueryError` not_found if there is none of that name."""

    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The names of all views, sorted."""

    @abstractmethod
    def batch(
        self, table: str, batch_id: int, at: datetime, watermark: datetime | None = None
    ) -> AbstractContextManager[BatchWriter]:
        """A writer; rows and position are committed together at the end, or not at all on an exception."""

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
        """Replaces the columns, all rows and the position of a view at once; makes it if it isn't there.

        With `keep` the rows for which it is true stay, and the columns must be those of before.
        """

    @abstractmethod
    def get(self, table: str, key: Sequence[Any]) -> dict[str, Any] | None:
        """The row of a key: keys, columns, `_batch`, `_at`."""

    @abstractmethod
    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of one moment, one by one, by key or as ordered. Bad arguments raise at once."""

    @abstractmethod
    def count(self, table: str, where: Where = None) -> int | None:
        """How many keys a view has; None where it is not known. Takes time in proportion to them."""

    @abstractmethod
    def position(self, table: str) -> Position | None:
        """The position of a view; None before its first batch, or if there is no such view yet."""

    @abstractmethod
    def drop(self, table: str) -> None:
        """Removes a view, if it is there."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of files and connections."""

    def wait(self, table: str, at_least: int, timeout: float = 0) -> Position:
        """The position once it has reached a batch; else `QueryError` behind_bound after so many seconds."""
        deadline = time.monotonic() + timeout
        pause = _POLL
        while True:
            position = self.position(table)
            if position is not None and position.batch >= at_least:
                return position
            left = deadline - time.monotonic()
            if left <= 0:
                raise _behind(table, position, at_least, timeout)
            # Polling also sees batches that another process commits, which no condition variable would.
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
        hint="a longer wait, or an earlier batch",
    )
