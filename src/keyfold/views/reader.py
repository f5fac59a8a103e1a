"""Reads one table, for the handle and the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.errors import BadDuration, QueryError, RunError, did_you_mean
from keyfold.plan import durations
from keyfold.views import html, keys
from keyfold.views.contract import Column, OrderBy, Position, ViewSchema, ViewStore, Where
from keyfold.views.sqlite.store import SqliteStore
from keyfold.views.types.nested import Nested

if TYPE_CHECKING:
    import pandas as pd

Wait = str | float | None
_READING: Final = frozenset(("where", "order_by", "limit", "at_least", "wait", "key", "since", "until"))


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
        parts = keys.whole_key(schema, key, named)
        self._reach(at_least, wait)
        return self._store.get(self.table, parts)

    def rows(
        self,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        at_least: int | None = None,
        wait: Wait = None,
        *,
        key: Any = None,
        since: Any = None,
        until: Any = None,
    ) -> list[dict[str, Any]]:
        """Rows by key, or as ordered: `rows("revenue > 100", order_by="revenue desc", limit=10)`.

        `key` is the key or its first parts: `rows(key="eu")`, `rows(key=("eu", 7))`, or a dict of some parts.
        Of a table with windows `since` and `until` choose those that overlap the time from the one to just
        before the other: `rows(key="eu", since="2026-01-01", until="2026-01-01T06:00:00Z")`. They are
        datetimes, dates or ISO text; without a zone they are in UTC.
        """
        self._reach(at_least, wait)
        return list(self._scan(where, order_by, limit, key, since, until))

    def pandas(
        self,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        at_least: int | None = None,
        wait: Wait = None,
        *,
        key: Any = None,
        since: Any = None,
        until: Any = None,
    ) -> pd.DataFrame:
        """The same rows as a pandas DataFrame; integers and booleans stay so where some are null."""
        from keyfold.views.pandas_frames import frame

        self._reach(at_least, wait)
        return frame(self._scan(where, order_by, limit, key, since, until), self.schema)

    def plot(self, *columns: str, kind: str = "bar", **options: Any) -> Any:
        """The rows as a pandas plot, with the key along the axis: `plot("revenue", order_by="revenue desc")`.

        Without columns all that are numbers. Takes what `pandas` takes, and the options of pandas' own plot.
        """
        wanted = _plotted(self.schema, columns)
        data = self._numbers(wanted, {name: options.pop(name) for name in _READING & set(options)})
        try:
            return data.plot(kind=kind, **options)
        except ImportError as error:
            part = error.name or "matplotlib"
            raise RunError(f"a plot needs {part}", given=error, hint=f"pip install {part}") from None

    def _numbers(self, columns: Sequence[str], reading: Mapping[str, Any]) -> pd.DataFrame:
        frame, index = self.pandas(**reading), self.schema.keys
        if frame.empty:
            hint = "rows come with the first batch" if self.position() is None else "a wider where or range"
            raise QueryError("there are no rows to plot", reason="not_ready", where=self.table, hint=hint)
        for column in index:
            if isinstance(column.type, Nested):
                frame[column.name] = frame[column.name].map(html.text)
        # Decimals and integers beside nulls as well: a plot draws nothing finer than a double.
        return frame.set_index([column.name for column in index])[list(columns)].astype("float64")

    def _scan(
        self, where: Where, order_by: OrderBy, limit: int | None, key: Any, since: Any, until: Any
    ) -> Iterator[dict[str, Any]]:
        if key is not None or since is not None or until is not None:
            where = keys.narrowed(self.schema, where, key, since, until)
        return self._store.scan(self.table, where, order_by, limit)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}, {_brief(self)})"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        return html.table(self._store, self.table)

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


def _brief(reader: TableReader) -> str:
    """How far the table is, in a line. A repr may not raise: it is what debuggers and logs show."""
    try:
        # The schema is read for its errors: where there are no views the position is just None.
        position, _ = reader.position(), reader.schema
    except Exception as error:
        return " ".join((getattr(error, "what", None) or type(error).__name__).split())
    return "no batch yet" if position is None else f"batch {position.batch}"


def _plotted(schema: ViewSchema, columns: Sequence[str]) -> list[str]:
    """The names of the columns to plot, as the table spells them."""
    numbers = [column.name for column in schema.columns if column.numeric]
    known = {column.name.lower(): column for column in (*schema.keys, *schema.columns)}
    for name in map(str, columns):
        column = known.get(name.lower())
        if column is None or column.name not in numbers:
            raise _unplottable(schema, name, column, numbers)
    if not numbers:
        raise QueryError("no column is a number, so that there is nothing to plot", where=schema.table)
    return [known[name.lower()].name for name in columns] or numbers


def _unplottable(schema: ViewSchema, name: str, column: Column | None, numbers: list[str]) -> QueryError:
    hint = f"one of {', '.join(numbers)}" if numbers else None
    if column is None:
        near = did_you_mean(name, numbers, hint)
        return QueryError(f"unknown column {name!r}", where=schema.table, given=name, hint=near)
    why = "is the key, which is along the axis" if column in schema.keys else f"is a {column.type}, no number"
    return QueryError(f"column {column.name!r} {why}", where=schema.table, given=name, hint=hint)


def _seconds(wait: Wait, table: str) -> float:
    if wait is None:
        return 0
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < 1e9:
        return wait
    try:
        return durations.millis(wait, "wait", zero=True) / 1000
    except BadDuration as error:
        raise QueryError(error.what, where=table, given=error.given, hint=error.hint) from None
