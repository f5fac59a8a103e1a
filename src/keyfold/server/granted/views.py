"""`GrantedViews`: the views of an app without tables out of scope, and without private columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from keyfold.errors import RunError
from keyfold.server.auth.access import Access
from keyfold.views.contract import (
    KeyRead,
    OrderBy,
    Position,
    ViewSchema,
    ViewStore,
    Where,
    unknown_table,
)
from keyfold.views.query.filters import whole_order
from keyfold.views.query.where_parser import filter_of

Row = dict[str, Any]
Private = Callable[[str], frozenset[str]]


class GrantedViews(ViewStore):
    """Reads another store. What is hidden is not there: it has no name, no filter and no order either."""

    def __init__(self, store: ViewStore, app: str, access: Access, private: Private) -> None:
        """`private`: the columns of a table that are declared private; a restored view may not know it."""
        self.store, self._app, self._access, self._private = store, app, access, private
        self._schemas: dict[str, tuple[ViewSchema, frozenset[str], ViewSchema]] = {}

    @property
    def reads_at_once(self) -> bool:  # type: ignore[override]
        """That of the store."""
        return self.store.reads_at_once

    def schema(self, table: str) -> ViewSchema:
        """The schema that this reader sees."""
        self._require(table)
        found = self.store.schema(table)
        hidden = self._hidden(found)
        known = self._schemas.get(found.table)
        if known is None or known[0] is not found or known[1] != hidden:
            known = self._schemas[found.table] = found, hidden, _without(found, hidden)
        return known[2]

    def hidden(self, table: str) -> frozenset[str]:
        """The names of the columns of a table that this reader does not see."""
        self._require(table)
        return frozenset() if self._access.sees_private else self._hidden(self.store.schema(table))

    def shown(self, table: str) -> frozenset[str]:
        """The names of the columns of a table that this reader sees now."""
        return frozenset(column.name for column in self.schema(table).all)

    def tables(self) -> tuple[str, ...]:
        return tuple(one for one in self.store.tables() if self._access.reads(self._app, one))

    def get(self, table: str, key: Sequence[Any]) -> Row | None:
        self._require(table)
        return self._shown(table, self.store.get(table, key))

    def read_key(self, table: str, key: Sequence[Any]) -> KeyRead:
        self._require(table)
        found = self.store.read_key(table, key)
        return replace(found, row=self._shown(table, found.row))

    def get_many(self, table: str, keys: Sequence[Sequence[Any]]) -> list[Row | None]:
        self._require(table)
        return [self._shown(table, row) for row in self.store.get_many(table, keys)]

    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[Row]:
        schema = self.schema(table)
        if order_by:
            # For its error: a hidden column is an unknown one.
            whole_order(order_by, schema)
        else:
            # The order of the view itself may be by a hidden column.
            order_by = [_quoted(name) for name in schema.order] or None
        known = {column.name.lower() for column in schema.all}
        wanted = [one.name for one in schema.all] if columns is None else list(columns)
        for name in wanted:
            if name.lower() not in known:
                raise RunError("the reader does not see this column", where=table, given=name)
        return self.store.scan(table, filter_of(where, schema), order_by, limit, wanted)

    def count(self, table: str, where: Where = None) -> int | None:
        return self.store.count(table, filter_of(where, self.schema(table)))

    def position(self, table: str) -> Position | None:
        return self.store.position(table) if self._access.reads(self._app, table) else None

    def edition(self) -> int:
        return self.store.edition()

    def close(self) -> None:
        """Nothing: the store is that of others as well."""

    def _require(self, table: str) -> None:
        if not self._access.reads(self._app, table):
            raise unknown_table(table, self.tables())

    def _hidden(self, schema: ViewSchema) -> frozenset[str]:
        if self._access.sees_private:
            return frozenset()
        declared = {name.lower() for name in self._private(schema.table)}
        return frozenset(
            (*schema.private, *(one.name for one in schema.columns if one.name.lower() in declared))
        )

    def _shown(self, table: str, row: Row | None) -> Row | None:
        hidden = self.hidden(table)
        if row is None or not hidden:
            return row
        return {name: value for name, value in row.items() if name not in hidden}

    # Whoever reads over HTTP writes nothing.

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RunError("these views are read only", where=self._app)

    create: Any = _refuse
    batch: Any = _refuse
    rebuild: Any = _refuse
    drop: Any = _refuse
    compare: Any = _refuse
    copy_to: Any = _refuse
    erase: Any = _refuse
    purge: Any = _refuse


def _without(schema: ViewSchema, hidden: frozenset[str]) -> ViewSchema:
    if not hidden:
        return schema
    columns = tuple(column for column in schema.columns if column.name not in hidden)
    order = tuple(name for name in schema.order if name not in hidden)
    return replace(schema, columns=columns, order=order, private=())


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


FROM_BASE: Final = frozenset(("wait",))
"""What it has of the base class: these read by the methods above."""
