"""The store that keeps no views, for apps that only feed sinks: `KEYFOLD_VIEWS=none`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from keyfold.errors import QueryError
from keyfold.views import arrow as pa
from keyfold.views.contract import (
    BatchWriter,
    Difference,
    OrderBy,
    Position,
    ViewSchema,
    ViewStore,
    Where,
)
from keyfold.views.query.filters import Filter


class _Discard(BatchWriter):
    def next(self, position: Position) -> None:
        pass

    def apply(self, changes: pa.RecordBatch) -> None:
        """Discards the changes."""


class NoViews(ViewStore):
    """Accepts every batch and stores nothing; reads are refused with the reason."""

    def create(self, schema: ViewSchema) -> None:
        """Does nothing."""

    def schema(self, table: str) -> ViewSchema:
        _refuse(table)

    def tables(self) -> tuple[str, ...]:
        return ()

    @contextmanager
    def batch(
        self, table: str, batch_id: int, at: datetime, watermark: datetime | None = None
    ) -> Iterator[BatchWriter]:
        yield _Discard()

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
        """Does nothing, and reads no rows."""

    def get(self, table: str, key: Sequence[Any]) -> dict[str, Any] | None:
        _refuse(table)

    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        _refuse(table)

    def count(self, table: str, where: Where = None) -> int | None:
        return None

    def position(self, table: str) -> Position | None:
        return None

    def edition(self) -> int:
        return 0

    def wait(self, table: str, at_least: int, timeout: float = 0) -> Position:
        _refuse(table)

    def drop(self, table: str) -> None:
        """Does nothing."""

    def compare(
        self, schema: ViewSchema, changes: Iterable[pa.RecordBatch], where: Filter | None, limit: int
    ) -> list[Difference]:
        _refuse(schema.table)

    def copy_to(self, path: Path) -> bool:
        return False

    def purge(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def _refuse(table: str) -> NoReturn:
    hint = "start the app without KEYFOLD_VIEWS=none, or read the table's sink"
    raise QueryError("views are turned off", reason="not_ready", where=table, hint=hint)
