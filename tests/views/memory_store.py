"""A second view store, in memory, on canonical values: it shares no line with the SQLite store."""

from __future__ import annotations

import copy
import functools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from keyfold.errors import RunError
from keyfold.views import changes as view_changes
from keyfold.views.contract import (
    BatchWriter,
    OrderBy,
    Position,
    ViewSchema,
    ViewStore,
    Where,
    require_same_columns,
    unknown_table,
)
from keyfold.views.query import filters
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Like, Not, OneOf
from keyfold.views.query.where_parser import filter_of
from keyfold.views.schema import AT, BATCH, Column
from keyfold.views.types import epoch
from keyfold.views.types.base import DataType
from keyfold.views.types.nested import hashable

Row = dict[str, Any]


@dataclass
class View:
    """The rows of a view by key, as canonical values."""

    schema: ViewSchema
    rows: dict[Any, Row] = field(default_factory=dict)
    position: Position | None = None


_HOMES: dict[str, dict[str, View]] = {}
"""The views by the address of their store: they outlive the store, as files do."""


class MemoryWriter(BatchWriter):
    """Works on a copy, which replaces the view at the end."""

    def __init__(self, view: View, position: Position) -> None:
        self.view = View(view.schema, dict(view.rows), position)

    def next(self, position: Position) -> None:
        self.view.position = position

    def apply(self, changes: pa.RecordBatch) -> None:
        if self.replayed:
            return
        schema, position = self.view.schema, self.view.position
        assert position is not None
        canonical = view_changes.canonical(changes, schema, position.batch)
        for change in canonical.to_pylist():
            operation = change.pop("_op")
            key = hashable([change[column.name] for column in schema.keys])
            if None in key:
                raise RunError(
                    "cannot write the view: null in a key", table=schema.table, batch=position.batch
                )
            if operation == "delete":
                self.view.rows.pop(key, None)
            else:
                own = {BATCH.name: position.batch, AT.name: epoch.to_micros(position.at)}
                self.view.rows[key] = {**change, **own}


class MemoryStore(ViewStore):
    """Views in dicts. One writer per view at a time, which is what the engine does."""

    def __init__(self, address: str) -> None:
        self._views = _HOMES.setdefault(address, {})
        self._lock = threading.Lock()

    def create(self, schema: ViewSchema) -> None:
        with self._lock:
            found = self._views.setdefault(schema.table, View(schema))
            require_same_columns(found.schema, schema)
            found.schema = schema

    def schema(self, table: str) -> ViewSchema:
        return self._view(table).schema

    def tables(self) -> tuple[str, ...]:
        return tuple(sorted(self._views))

    @contextmanager
    def batch(
        self, table: str, batch_id: int, at: datetime, watermark: datetime | None = None
    ) -> Iterator[BatchWriter]:
        view = self._view(table)
        writer = MemoryWriter(view, Position(batch_id, at, watermark))
        writer.replayed = view.position is not None and batch_id <= view.position.batch
        yield writer
        if not writer.replayed:
            self._views[table] = writer.view

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
        kept = View(schema)
        if keep is not None:
            view = self._view(table)
            require_same_columns(view.schema, schema)
            kept.rows = {key: row for key, row in view.rows.items() if _true(keep, row)}
        writer = MemoryWriter(kept, Position(batch_id, at, watermark))
        for changes in record_batches:
            writer.apply(changes)
        self._views[table] = writer.view

    def get(self, table: str, key: Sequence[Any]) -> Row | None:
        view = self._view(table)
        row = view.rows.get(hashable(filters.checked_key(key, view.schema)))
        return None if row is None else _python(row, view.schema.all)

    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[Row]:
        view = self._view(table)
        schema, condition = view.schema, filter_of(where, view.schema)
        chosen = schema.all if columns is None else tuple(filters.column_of(c, schema) for c in columns)
        compare = functools.cmp_to_key(_comparison(order_by, schema))
        # Committed views are never changed, only replaced: this is a snapshot.
        rows = sorted((row for row in view.rows.values() if _true(condition, row)), key=compare)
        if limit is not None:
            rows = rows[: filters.checked_limit(limit, schema)]
        return (_python(row, chosen) for row in rows)

    def count(self, table: str, where: Where = None) -> int | None:
        return sum(1 for _ in self.scan(table, where))

    def position(self, table: str) -> Position | None:
        return copy.copy(self._views[table].position) if table in self._views else None

    def drop(self, table: str) -> None:
        self._views.pop(table, None)

    def close(self) -> None:
        """Nothing is open."""

    def _view(self, table: str) -> View:
        if table not in self._views:
            raise unknown_table(table, self.tables())
        return self._views[table]


def _python(row: Row, columns: Iterable[Column]) -> Row:
    values = ((column, row[column.name]) for column in columns)
    return {c.name: None if value is None else c.type.to_python(value) for c, value in values}


def _comparison(order_by: OrderBy, schema: ViewSchema) -> Callable[[Row, Row], int]:
    terms = filters.order(order_by, schema) if order_by else ()
    own = [filters.column_of(name, schema) for name in (*schema.order, *(k.name for k in schema.keys))]
    ordered = [*((term.column.name, term.descending) for term in terms), *((c.name, False) for c in own)]

    def compare(one: Row, other: Row) -> int:
        for name, descending in ordered:
            a, b = _sortable(one[name]), _sortable(other[name])
            if a != b:
                return -1 if (a < b) != descending else 1
        return 0

    return compare


def _sortable(value: Any) -> tuple[Any, ...]:
    """Nulls first, NaN last."""
    nan = isinstance(value, float) and value != value
    return (0,) if value is None else (2,) if nan else (1, str(value) if isinstance(value, list) else value)


def _true(condition: Filter, row: Row) -> bool:
    return _truth(condition, row) is True


def _truth(condition: Filter, row: Row) -> bool | None:
    """True, False, or None for unknown, as in SQL."""
    match condition:
        case All(items):
            found = [_truth(item, row) for item in items]
            return False if False in found else None if None in found else True
        case AnyOf(items):
            found = [_truth(item, row) for item in items]
            return True if True in found else None if None in found else False
        case Not(item):
            inside = _truth(item, row)
            return None if inside is None else not inside
        case IsNull(column):
            return row[column.name] is None
        case Like(column, pattern):
            value = row[column.name]
            return None if value is None else re.fullmatch(_regex(pattern), value, re.DOTALL) is not None
        case OneOf(column, values):
            return _truth(AnyOf(tuple(Compare(column, "=", value) for value in values)), row)
        case Compare(column, op, Column() as other):
            return _compared(row[column.name], op, row[other.name])
        case Compare(column, op, value):
            return _with_literal(column.type, row[column.name], op, value)


def _with_literal(type: DataType, value: Any, op: str, literal: Any) -> bool | None:
    floor, exact = type.floor(literal)
    if exact or value is None:
        return _compared(value, op, floor)
    # The literal lies between `floor` and the next value of the type.
    return {"=": False, "<>": True}.get(op, (value <= floor) == (op in ("<", "<=")))


def _compared(one: Any, op: str, other: Any) -> bool | None:
    if one is None or other is None:
        return None
    a, b = _sortable(one), _sortable(other)
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _regex(pattern: str) -> str:
    found = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join({"%": ".*", "_": "."}.get(c, re.escape(c[-1])) for c in found)
