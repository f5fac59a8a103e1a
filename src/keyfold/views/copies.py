"""Copies of views: one format for all stores, so that a savepoint of one can be restored into another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from keyfold.views.changes import as_changes
from keyfold.views.contract import Position, ViewSchema, ViewStore
from keyfold.views.schema import AT, BATCH
from keyfold.views.stores import views_in

Row = Mapping[str, Any]


def write_copy(path: Path, views: Iterable[tuple[ViewSchema, Position | None, Iterable[Row]]]) -> None:
    """Writes views into a new file; the rows of each with `_batch` and `_at`, in the order of `_batch`."""
    with views_in(path).open(read_only=False) as target:
        for schema, position, rows in views:
            target.create(schema)
            if position is not None:
                write_rows(target, schema, position, rows)


def write_rows(target: ViewStore, schema: ViewSchema, position: Position, rows: Iterable[Row]) -> None:
    """Writes rows into an empty view, in one transaction; each tells the batch that it came with."""
    first = Position(-1, position.at, None)
    with target.batch(schema.table, first.batch, first.at) as writer:
        for (batch, at), some in groupby(rows, key=lambda row: (row[BATCH.name], row[AT.name])):
            writer.next(Position(batch, at, None))
            for changes in as_changes(some, schema):
                writer.apply(changes)
        writer.next(position)
