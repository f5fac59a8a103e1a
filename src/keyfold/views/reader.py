"""Reads one table, for the handle and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.errors import BadDuration, QueryError, did_you_mean
from keyfold.plan import durations
from keyfold.views.contract import OrderBy, Position, ViewSchema, ViewStore, Where
from keyfold.views.nested import Nested
from keyfold.views.sqlite import SqliteStore

if TYPE_CHECKING:
    import pandas as pd

Wait = str | float | None


def open_store(path: Path, *, read_only: bool) -> ViewStore:
    """The views in a SQLite file; reading from one that isn't there is a `QueryError` not_ready."""
    return SqliteStore(path, read_only=read_only)


class TableReader:
    """The newest rows of one table.

    With `at_least=batch` a read answers only from that batch on: it waits for `wait` (seconds, or text such
    as "5 s"; without it not at all), and is then refused with a `QueryError` behind_bound.
    """

    def __init__(self, store: ViewStore, table: str) -> None:
        self.table = table
        self._store = store

    @property
    def schema(self) -> ViewSchema:
        """Keys and columns; `QueryError` not_found for an unknown table."""
        return self._store.schema(self.table)

    def position(self) -> Position | None:
        """The batch that the rows belong to; None before the first."""
        return self._store.position(self.table)

    def get(
        self, *key: Any, at_least: int | None = None, wait: Wait = None, **named: Any
    ) -> dict[str, Any] | None:
        """A row or None: `get("eu")`, `get("eu", 7)`, `get(region="eu")`, `get({"region": "eu"})`."""
        schema = self.schema
        parts = _key(schema, key, named)
        self._reach(at_least, wait)
        return self._store.get(self.table, parts)

    def rows(
        self,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        at_least: int | None = None,
        wait: Wait = None,
    ) -> list[dict[str, Any]]:
        """Rows by key, or as ordered: `rows("revenue > 100", order_by="revenue desc", limit=10)`."""
        self._reach(at_least, wait)
        return list(self._store.scan(self.table, where, order_by, limit))

    def pandas(
        self,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        at_least: int | None = None,
        wait: Wait = None,
    ) -> pd.DataFrame:
        """The same rows as a pandas DataFrame; integers and booleans stay so where some are null."""
        from keyfold.views.frames import frame

        self._reach(at_least, wait)
        return frame(self._store.scan(self.table, where, order_by, limit), self.schema)

    def _reach(self, at_least: int | None, wait: Wait) -> None:
        if at_least is None:
            return
        if not isinstance(at_least, int) or isinstance(at_least, bool):
            hint = "the number of a batch"
            raise QueryError("at_least can't be used", where=self.table, given=repr(at_least), hint=hint)
        timeout = _seconds(wait, self.table)
        # An unknown name is said at once, not after a wait for it.
        if self._store.position(self.table) is None:
            self._store.schema(self.table)
        self._store.wait(self.table, at_least, timeout)


def _seconds(wait: Wait, table: str) -> float:
    if wait is None:
        return 0
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < 1e9:
        return wait
    try:
        return durations.millis(wait, "wait", zero=True) / 1000
    except BadDuration as error:
        raise QueryError(error.what, where=table, given=error.given, hint=error.hint) from None


def _key(schema: ViewSchema, key: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
    first = key[0] if len(key) == 1 else None
    simple = not isinstance(schema.keys[0].type, Nested) or len(schema.keys) > 1
    if named or (isinstance(first, Mapping) and simple):
        return _named_key(
            schema, () if isinstance(first, Mapping) and simple else key, {**_mapping(first), **named}
        )
    if isinstance(first, tuple | list) and simple:
        return first
    return key


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _named_key(schema: ViewSchema, key: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    names = [column.name for column in schema.keys]
    if key:
        hint = f"all by name: {', '.join(names)}"
        raise QueryError(
            "the key is given by place and by name", where=schema.table, given=repr(key), hint=hint
        )
    by_lower = {str(name).lower(): value for name, value in named.items()}
    for name in named:
        if str(name).lower() not in {known.lower() for known in names}:
            near = did_you_mean(str(name), names, ", ".join(names))
            raise QueryError(f"{name!r} is no key column", where=schema.table, hint=near)
    missing = [name for name in names if name.lower() not in by_lower]
    if missing:
        hint = f"the key is: {', '.join(names)}"
        raise QueryError(f"the key lacks {', '.join(missing)}", where=schema.table, hint=hint)
    return [by_lower[name.lower()] for name in names]
