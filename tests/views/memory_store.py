"""A second view store, in memory, on canonical values: it shares no line with the SQLite store."""

from __future__ import annotations

import copy
import functools
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from keyfold.errors import QueryError, RunError
from keyfold.views import changes as view_changes
from keyfold.views.contract import (
    BatchWriter,
    Difference,
    Location,
    OrderBy,
    Position,
    Views,
    ViewSchema,
    ViewStore,
    Where,
    require_same_columns,
    unknown_table,
)
from keyfold.views.copies import write_copy, write_rows
from keyfold.views.query import filters
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Like, Not, OneOf
from keyfold.views.query.where_parser import filter_of
from keyfold.views.schema import AT, BATCH, Column
from keyfold.views.stores import views_in
from keyfold.views.types import epoch
from keyfold.views.types.base import DataType
from keyfold.views.types.nested import hashable

Row = dict[str, Any]
VALUES = "has other values"


@dataclass
class View:
    """The rows of a view by key, as canonical values."""

    schema: ViewSchema
    rows: dict[Any, Row] = field(default_factory=dict)
    position: Position | None = None
    edition: int = 0


_EDITIONS = itertools.count(1)
_HOMES: dict[Location, dict[str, View]] = {}
"""The views of each app: they outlive the open store, as files do."""


@dataclass(frozen=True)
class MemoryViews(Views):
    """Views in this process."""

    location: Location

    def __str__(self) -> str:
        return f"{self.location.address} of {self.location.home}/{self.location.app}"

    @property
    def name(self) -> str:
        return "the memory"

    def is_in(self, directory: Path) -> bool:
        return False

    def exists(self) -> bool:
        return self.location in _HOMES

    def open(self, *, read_only: bool) -> MemoryStore:
        if not read_only:
            _HOMES.setdefault(self.location, {})
        return MemoryStore(self.location, read_only)

    def remove(self) -> None:
        _HOMES.pop(self.location, None)

    def restore_from(self, copy: Path) -> None:
        beside = MemoryViews(replace(self.location, app=f"{self.location.app}, restored"))
        with views_in(copy).open(read_only=True) as source, beside.open(read_only=False) as target:
            for table in source.tables():
                schema, position = source.schema(table), source.position(table)
                target.create(schema)
                if position is not None:
                    write_rows(target, schema, position, source.scan(table, order_by=BATCH.name))
                _HOMES[beside.location][table].edition = next(_EDITIONS)
        _HOMES[self.location] = _HOMES.pop(beside.location)


class MemoryWriter(BatchWriter):
    """Works on a copy, which replaces the view at the end."""

    def __init__(self, view: View, position: Position) -> None:
        self.view = View(view.schema, dict(view.rows), position, view.edition)

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

    def __init__(self, location: Location, read_only: bool) -> None:
        self._location = location
        self._read_only = read_only
        self._lock = threading.Lock()

    @property
    def _views(self) -> dict[str, View]:
        if self._location not in _HOMES:
            raise QueryError("there are no views yet", reason="not_ready")
        return _HOMES[self._location]

    def _writable(self) -> dict[str, View]:
        if self._read_only:
            raise RunError("the view store is open for reading only")
        return self._views

    def create(self, schema: ViewSchema) -> None:
        with self._lock:
            found = self._writable().setdefault(schema.table, View(schema))
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
            self._writable()[table] = writer.view

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
        kept = View(schema, edition=next(_EDITIONS))
        if keep is not None:
            view = self._view(table)
            require_same_columns(view.schema, schema)
            kept.rows = {key: row for key, row in view.rows.items() if _true(keep, row)}
        writer = MemoryWriter(kept, Position(batch_id, at, watermark))
        for changes in record_batches:
            writer.apply(changes)
        self._writable()[table] = writer.view

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

    def edition(self) -> int:
        return max((view.edition for view in self._views.values()), default=0)

    def drop(self, table: str) -> None:
        self._writable().pop(table, None)

    def compare(
        self, schema: ViewSchema, changes: Iterable[pa.RecordBatch], where: Filter | None, limit: int
    ) -> list[Difference]:
        wanted = MemoryWriter(View(schema), Position(0, datetime.now(UTC), None))
        for some in changes:
            wanted.apply(some)
        columns = (*schema.keys, *schema.columns)

        def matching(view: View) -> dict[Any, Row]:
            found = {key: row for key, row in view.rows.items() if where is None or _true(where, row)}
            return {key: {c.name: row[c.name] for c in columns} for key, row in found.items()}

        one, other = matching(self._view(schema.table)), matching(wanted.view)
        keys = sorted(key for key in {*one, *other} if repr(one.get(key)) != repr(other.get(key)))
        return [
            Difference(
                _python((one.get(key) or other[key]), schema.keys),
                "is missing" if key not in one else "should not be there" if key not in other else VALUES,
            )
            for key in keys[:limit]
        ]

    def copy_to(self, path: Path) -> bool:
        # Committed views are never changed, only replaced: this is of one moment.
        views = sorted(self._views.items())
        found = ((v.schema, v.position, sorted(v.rows.values(), key=itemgetter("_batch"))) for _, v in views)
        write_copy(path, ((s, p, [_python(row, s.all) for row in rows]) for s, p, rows in found))
        return True

    def purge(self) -> None:
        self._writable()

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
