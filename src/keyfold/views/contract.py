"""The interface of a view store, which keeps the latest row of each key and the position of each view.

`Views` says where an app's views are, and `ViewStore` reads and writes them while they are open. A batch
reaches a store as Arrow record batches: `_op` (upsert, final or delete), then the key columns, then the other
columns, named and ordered as in the `ViewSchema`. Its rows and position become visible together.

After a crash, each method has either done all it says or nothing, unless it says otherwise.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from keyfold.errors import QueryError, RunError, choice, did_you_mean
from keyfold.views import arrow as pa
from keyfold.views.query.filters import Filter, Not
from keyfold.views.schema import Column, ViewSchema

__all__ = [
    "BatchWriter",
    "Column",
    "Difference",
    "KeyRead",
    "Location",
    "NoViewsYet",
    "OrderBy",
    "Position",
    "ViewSchema",
    "ViewStore",
    "Views",
    "Where",
]

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


@dataclass(frozen=True)
class KeyRead:
    """The row of a key, None if there is none, and how far its view is."""

    table: str
    """The name of the view, as it was created."""
    position: Position | None
    edition: int
    row: dict[str, Any] | None


@dataclass(frozen=True)
class Difference:
    """A key whose row is not as it should be: missing, superfluous, or with other values."""

    key: dict[str, Any]
    problem: str


@dataclass(frozen=True)
class Location:
    """Whose views they are, and in which store."""

    address: str
    """The name of a store, or a URL that begins with it; it has no password."""
    app: str
    home: str
    """The URI of the app's home: a database may have the views of apps of one name in several homes."""
    local: Path
    """The directory of the app's local files."""


class Views(ABC):
    """The views of one app, whether or not they exist and are open; `str` of it names them for people.

    If the store can't be reached, reading is a `QueryError` not_ready, and writing a `HomeUnusable`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What a backup of the views contains, such as the name of a file."""

    @abstractmethod
    def is_in(self, directory: Path) -> bool:
        """Whether the views are moved and copied with this directory."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether the app has ever had views here."""

    @abstractmethod
    def open(self, *, read_only: bool) -> ViewStore:
        """Opens the views, and creates them unless they exist.

        With `read_only` nothing is created: until the views exist, reads are a `QueryError` not_ready.
        """

    @abstractmethod
    def remove(self) -> None:
        """Removes all views, also damaged ones. After a crash some may be left: remove them again."""

    @abstractmethod
    def restore_from(self, copy: Path) -> None:
        """Replaces all views, also damaged ones, by those of a copy that a store of any kind has made.

        Readers see the old views or the new ones. After a crash, damaged views may be gone.
        """


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
    """The open views of one app's tables. Thread-safe. As a context manager it is closed at the end."""

    reads_at_once: ClassVar[bool] = False
    """Whether a row is read in microseconds, from a local file, so that an event loop can wait for it."""

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

    def read_key(self, table: str, key: Sequence[Any]) -> KeyRead:
        """The row of a key with the position of its view, which it is at least as new as."""
        name, position, edition = self.schema(table).table, self.position(table), self.edition()
        return KeyRead(name, position, edition, self.get(table, key))

    def get_many(self, table: str, keys: Sequence[Sequence[Any]]) -> list[dict[str, Any] | None]:
        """The rows of some keys, in their order; a store may read them in one step, as of one moment."""
        return [self.get(table, key) for key in keys]

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
    def edition(self) -> int:
        """A number that is another one once rows were changed otherwise than by the next batch.

        A rebuild, a restore and an erasure may leave a view at the batch that it had.
        """

    @abstractmethod
    def drop(self, table: str) -> None:
        """Removes a view, if it exists."""

    @abstractmethod
    def compare(
        self, schema: ViewSchema, changes: Iterable[pa.RecordBatch], where: Filter | None, limit: int
    ) -> list[Difference]:
        """The first keys, in order, whose rows are not those that the changes make; only rows that match.

        The views stay as they are. `schema`: that of the view and of the changes.
        """

    @abstractmethod
    def copy_to(self, path: Path) -> bool:
        """Writes a copy of all views, as of one moment, into a new file; False if the store keeps no views.

        The file has one format for all stores (`keyfold.views.copies`). After a crash it is of no use.
        """

    def erase(self, table: str, where: Filter, batch: int | None) -> None:
        """Deletes rows so that nothing of them is left in the store, not even in freed space.

        `where` is about columns of the key, which are never null. The view is at `batch` afterwards; if it
        was further, its rows are those of other batches, and stay. None: the view has no finished batch, and
        is dropped. After a crash the rows are there or not, but freed space may have them: erase them again.
        """
        position = self.position(table)
        if batch is None:
            self.drop(table)
        elif position is not None and position.batch <= batch:
            at, watermark = position.at, position.watermark
            self.rebuild(table, self.schema(table), (), batch, at, watermark, keep=Not(where))
        self.purge()

    @abstractmethod
    def purge(self) -> None:
        """Removes what is left of deleted rows and dropped views in freed space and in logs of writes."""

    @abstractmethod
    def close(self) -> None:
        """Releases files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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


class NoViewsYet(QueryError):
    """The app has no views: it has not run yet."""

    def __init__(self, where: object) -> None:
        hint = "start the app once: the first start creates the views"
        super().__init__("there are no views yet", reason="not_ready", where=where, hint=hint)


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
            "the view's columns differ from the table's", given=difference, hint=hint, table=given.table
        )
