"""`TableReader`: reads the view of one table, for the handle and the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.errors import BadDuration, QueryError, RunError, choice, did_you_mean
from keyfold.plan import durations
from keyfold.views import html
from keyfold.views.contract import Column, OrderBy, Position, ViewSchema, ViewStore, Where
from keyfold.views.keys import narrow, whole_key
from keyfold.views.query import filters
from keyfold.views.query.cursor import Keyset
from keyfold.views.query.filters import Filter
from keyfold.views.query.where_parser import filter_of
from keyfold.views.types.nested import Nested

if TYPE_CHECKING:
    import pandas as pd

Wait = str | float | None
_READ_OPTIONS: Final = frozenset(("where", "order_by", "limit", "at_least", "wait", "key", "since", "until"))


@dataclass(frozen=True)
class Page:
    """Some rows of a read, and the cursor of those behind them; None after the last one."""

    rows: list[dict[str, Any]]
    next: str | None


class TableReader:
    """Reads the latest rows of one table.

    With `at_least=batch` a read returns only once the view has reached that batch: it waits for at most
    `wait` (seconds, or text such as "5 s"; by default not at all), then raises a `QueryError` behind_bound.
    """

    def __init__(self, store: ViewStore, table: str) -> None:
        self.table = table
        self._store = store

    @property
    def schema(self) -> ViewSchema:
        """Key columns and other columns; `QueryError` not_found for an unknown table."""
        return self._store.schema(self.table)

    def position(self) -> Position | None:
        """The last batch of the view, and when it was committed; None before the first batch."""
        return self._store.position(self.table)

    def get(
        self, *key: Any, at_least: int | None = None, wait: Wait = None, **named: Any
    ) -> dict[str, Any] | None:
        """A row or None: `get("eu")`, `get("eu", 7)`, `get(region="eu")`, `get({"region": "eu"})`."""
        schema = self.schema
        parts = whole_key(schema, key, named)
        self._reach(at_least, wait)
        return self._store.get(self.table, parts)

    def get_many(
        self, keys: Sequence[Any], at_least: int | None = None, wait: Wait = None
    ) -> list[dict[str, Any] | None]:
        """The rows of some keys as of one moment, in the order of the keys: `get_many(["eu", "us"])`.

        A key is a value, a tuple of all parts, or a dict; of one without a row there is None.
        """
        schema = self.schema
        parts = [whole_key(schema, [key], {}) for key in keys]
        self._reach(at_least, wait)
        return self._store.get_many(self.table, parts)

    def scan(
        self,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        cursor: str | None = None,
        at_least: int | None = None,
        wait: Wait = None,
        *,
        key: Any = None,
        since: Any = None,
        until: Any = None,
    ) -> Iterator[dict[str, Any]]:
        """The same rows as `rows`, one by one as of one moment; wrong arguments raise at once.

        With the cursor of a page it begins behind that page. Read it to its end, or close it.
        """
        self._reach(at_least, wait)
        behind, _ = self._behind(where, order_by, cursor, key, since, until)
        return self._store.scan(self.table, behind, order_by, limit)

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
        """Rows in key order, or by `order_by`: `rows("revenue > 100", order_by="revenue desc", limit=10)`.

        `key` is the key or its first parts: `rows(key="eu")`, `rows(key=("eu", 7))`, or a dict of some parts.
        On a windowed table, `since` and `until` select the windows that overlap [since, until):
        `rows(key="eu", since="2026-01-01", until="2026-01-01T06:00:00Z")`. They are datetimes, dates or ISO
        text; without a zone they are in UTC.
        """
        self._reach(at_least, wait)
        return list(self._scan(where, order_by, limit, key, since, until))

    def page(
        self,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int = 100,
        cursor: str | None = None,
        at_least: int | None = None,
        wait: Wait = None,
        *,
        key: Any = None,
        since: Any = None,
        until: Any = None,
    ) -> Page:
        """The same rows, `limit` at a time: `page(cursor=last.next)` has those behind the page `last`.

        The cursor is for a read with the same `where`, `order_by` and so on. A row that does not change
        meanwhile is on one page exactly, whichever rows come and go between two reads.
        """
        self._reach(at_least, wait)
        if filters.checked_limit(limit, self.schema) == 0:
            raise QueryError("a page has at least one row", where=self.table, given="limit=0")
        behind, keyset = self._behind(where, order_by, cursor, key, since, until)
        # One more tells whether there is another page.
        found = list(self._store.scan(self.table, behind, order_by, limit + 1))
        rows = found[:limit]
        return Page(rows, keyset.cursor(rows[-1]) if len(found) > limit else None)

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
        """The same rows as a pandas DataFrame; nullable integers and booleans keep their type."""
        from keyfold.views.pandas_frames import frame

        self._reach(at_least, wait)
        return frame(self._scan(where, order_by, limit, key, since, until), self.schema)

    def plot(self, *columns: str, kind: str = "bar", **options: Any) -> Any:
        """The rows as a pandas plot with the key on the x-axis: `plot("revenue", order_by="revenue desc")`.

        Without columns, all numeric columns. Takes the arguments of `pandas` and of pandas' plot.
        """
        wanted = _columns_to_plot(self.schema, columns)
        data = self._numbers(wanted, {name: options.pop(name) for name in _READ_OPTIONS & set(options)})
        try:
            return data.plot(kind=kind, **options)
        except ImportError as error:
            part = error.name or "matplotlib"
            raise RunError(f"plot needs {part}", given=error, hint=f"pip install {part}") from None

    def _numbers(self, columns: Sequence[str], reading: Mapping[str, Any]) -> pd.DataFrame:
        frame, index = self.pandas(**reading), self.schema.keys
        if frame.empty:
            hint = "wait for the first batch" if self.position() is None else "a wider filter or time range"
            raise QueryError("there are no rows to plot", reason="not_ready", where=self.table, hint=hint)
        for column in index:
            if isinstance(column.type, Nested):
                frame[column.name] = frame[column.name].map(html.text)
        # Decimals and nullable integers as well: a plot draws nothing finer than a double.
        return frame.set_index([column.name for column in index])[list(columns)].astype("float64")

    def _behind(
        self, where: Where, order_by: OrderBy, cursor: str | None, key: Any, since: Any, until: Any
    ) -> tuple[Filter, Keyset]:
        """The rows behind a cursor, or all, and what makes cursors of them."""
        schema = self.schema
        chosen = filter_of(narrow(schema, where, key, since, until), schema)
        keyset = Keyset(schema, filters.whole_order(order_by, schema), chosen)
        return chosen if cursor is None else keyset.after(cursor), keyset

    def _scan(
        self, where: Where, order_by: OrderBy, limit: int | None, key: Any, since: Any, until: Any
    ) -> Iterator[dict[str, Any]]:
        if key is not None or since is not None or until is not None:
            where = narrow(self.schema, where, key, since, until)
        return self._store.scan(self.table, where, order_by, limit)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}, {_position_text(self)})"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        return html.table(self._store, self.table)

    def _reach(self, at_least: int | None, wait: Wait) -> None:
        if at_least is None:
            return
        if not isinstance(at_least, int) or isinstance(at_least, bool):
            hint = "the number of a batch, such as 7"
            raise QueryError(
                "at_least must be a batch number", where=self.table, given=repr(at_least), hint=hint
            )
        timeout = seconds(wait, self.table)
        # An unknown name raises at once, not after the wait.
        if self._store.position(self.table) is None:
            self._store.schema(self.table)
        self._store.wait(self.table, at_least, timeout)


def _position_text(reader: TableReader) -> str:
    """The position as text. A repr must not raise: debuggers and logs show it."""
    try:
        # The schema is read for its errors: without views the position is just None.
        position, _ = reader.position(), reader.schema
    except Exception as error:
        return " ".join((getattr(error, "what", None) or type(error).__name__).split())
    return "no batch yet" if position is None else f"batch {position.batch}"


def _columns_to_plot(schema: ViewSchema, columns: Sequence[str]) -> list[str]:
    """The names of the columns to plot, as spelled in the table."""
    numbers = [column.name for column in schema.columns if column.numeric]
    known = {column.name.lower(): column for column in (*schema.keys, *schema.columns)}
    for name in map(str, columns):
        column = known.get(name.lower())
        if column is None or column.name not in numbers:
            raise _not_plottable(schema, name, column, numbers)
    if not numbers:
        raise QueryError("the table has no numeric column to plot", where=schema.table)
    return [known[name.lower()].name for name in columns] or numbers


def _not_plottable(schema: ViewSchema, name: str, column: Column | None, numbers: list[str]) -> QueryError:
    hint = choice(numbers) if numbers else None
    if column is None:
        near = did_you_mean(name, numbers, hint)
        return QueryError(f"unknown column {name!r}", where=schema.table, given=name, hint=near)
    why = (
        "is part of the key, which is the x-axis"
        if column in schema.keys
        else f"is not numeric: {column.type}"
    )
    return QueryError(f"column {column.name!r} {why}", where=schema.table, given=name, hint=hint)


def seconds(wait: Wait, table: str) -> float:
    """How long to wait, in seconds; `table` is named in errors."""
    if wait is None:
        return 0
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < 1e9:
        return wait
    try:
        return durations.millis(wait, "wait", zero=True) / 1000
    except BadDuration as error:
        raise QueryError(error.what, where=table, given=error.given, hint=error.hint) from None
