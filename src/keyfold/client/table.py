"""`RemoteTable`: reads one table of a server, with the verbs of `TableReader`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from keyfold.client.connection import LOST, Connections, Ending, Query
from keyfold.errors import QueryError

Row = dict[str, Any]
Where = str | Mapping[str, Any] | None
Wait = str | float | None
AsOf = int | str | datetime | None


@dataclass(frozen=True)
class RemotePosition:
    """How far a view is: the last batch, its watermark, and the seconds since that batch was committed.

    `position` is behind that batch: `after` and `changes` take it.
    """

    batch: int
    watermark: str | None
    age: float
    position: str


@dataclass(frozen=True)
class RemotePage:
    """Some rows of a read, and the cursor of those behind them; None after the last one."""

    rows: list[Row]
    next: str | None


class RemoteTable:
    """Reads the latest rows of one table of a server.

    `at_least` and `wait` are those of a local read; `max_age`, such as "5s", refuses rows of an older view.
    With `after` a read returns only once the view shows a position: that of a message as Kafka tells its
    producer, "orders/3@1234", of topic, partition and offset; or one of an answer or of changes. Several have
    commas between them. `as_of`, a batch or a time, reads rows as they were then, if the log tells.
    """

    def __init__(self, connections: Connections, name: str) -> None:
        app, _, table = name.rpartition(".")
        self.table = name
        self._connections = connections
        of_app = f"/apps/{quote(app, safe='')}" if app else ""
        self._path = f"/api{of_app}/tables/{quote(table, safe='')}"

    @property
    def schema(self) -> dict[str, dict[str, str]]:
        """The types of `keys` and other `columns` by name, as Spark SQL has them."""
        found = self._connections.document(self._path)
        return {group: {one["name"]: one["type"] for one in found[group]} for group in ("keys", "columns")}

    def position(self) -> RemotePosition | None:
        """The last batch of the view; None before the first one."""
        found = self._connections.document(self._path)
        if found["batch"] is None:
            return None
        return RemotePosition(found["batch"], found["watermark"], found["age"], found["position"])

    def get(
        self,
        /,
        *key: Any,
        at_least: int | None = None,
        wait: Wait = None,
        max_age: Wait = None,
        after: str | None = None,
        as_of: AsOf = None,
        **named: Any,
    ) -> Row | None:
        """A row or None: `get("eu")`, `get("eu", 7)`, `get(region="eu")`."""
        if key and named:
            what = "the key is given both by position and by name"
            raise QueryError(what, where=self.table, given=repr(key), hint="by name only")
        one = key[0] if len(key) == 1 else key
        return self.get_many([named or one], at_least, wait, max_age, after, as_of)[0]

    def get_many(
        self,
        keys: Sequence[Any],
        at_least: int | None = None,
        wait: Wait = None,
        max_age: Wait = None,
        after: str | None = None,
        as_of: AsOf = None,
    ) -> list[Row | None]:
        """The rows of some keys as of one moment, in the order of the keys; None for one without a row."""
        body = {"keys": [list(key) if isinstance(key, tuple) else key for key in keys]}
        query = _bounds(at_least, wait, max_age, after, as_of)
        found = self._connections.document(f"{self._path}/batch-get", query, body)
        return list(found["rows"])

    def page(
        self,
        where: Where = None,
        order_by: str | Sequence[str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        at_least: int | None = None,
        wait: Wait = None,
        *,
        since: Any = None,
        until: Any = None,
        max_age: Wait = None,
        after: str | None = None,
        as_of: AsOf = None,
    ) -> RemotePage:
        """Rows, `limit` at a time: `page(cursor=last.next)` has those behind the page `last`."""
        query = [*_reading(where, order_by, limit, since, until), ("cursor", cursor)]
        found = self._connections.document(
            f"{self._path}/rows", [*query, *_bounds(at_least, wait, max_age, after, as_of)]
        )
        return RemotePage(found["rows"], found["next"])

    def rows(
        self,
        where: Where = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        at_least: int | None = None,
        wait: Wait = None,
        *,
        since: Any = None,
        until: Any = None,
        max_age: Wait = None,
        after: str | None = None,
        as_of: AsOf = None,
    ) -> list[Row]:
        """Rows as of one moment, by key or in an order: `rows("n > 1", order_by="n desc", limit=10)`."""
        bounds = _bounds(at_least, wait, max_age, after, as_of)
        return list(self._scan([*_reading(where, order_by, limit, since, until), *bounds]))

    def scan(
        self,
        where: Where = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        *,
        since: Any = None,
        until: Any = None,
    ) -> Iterator[Row]:
        """The same rows, one by one while they arrive."""
        return scan(None, self, where, order_by, limit, since=since, until=until)

    def _scan(self, query: Query, ending: Ending | None = None) -> Iterator[Row]:
        path, of_lines = f"{self._path}/rows", [*query, ("format", "ndjson")]
        try:
            with self._connections.stream(path, of_lines, ending=ending) as answer:
                for line in answer:
                    yield json.loads(line)
        except LOST as error:
            raise self._connections.unreachable(error) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}, {self._connections.url})"


def scan(
    ending: Ending | None,
    table: RemoteTable,
    where: Where = None,
    order_by: str | Sequence[str] | None = None,
    limit: int | None = None,
    *,
    since: Any = None,
    until: Any = None,
) -> Iterator[Row]:
    """The rows of a table, one by one, until another thread ends them."""
    return table._scan(_reading(where, order_by, limit, since, until), ending)


def _reading(
    where: Where, order_by: str | Sequence[str] | None, limit: int | None, since: Any, until: Any
) -> list[tuple[str, Any]]:
    ordered = order_by if order_by is None or isinstance(order_by, str) else ", ".join(order_by)
    filters = list(_filters(where)) if isinstance(where, Mapping) else [("where", where)]
    return [*filters, ("order_by", ordered), ("limit", limit), ("from", since), ("to", until)]


def _filters(example: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The filters of a dict: each column equals its value, is one of a list, or is null."""
    for name, value in example.items():
        if value is None:
            yield f"{name}.null", True
        elif isinstance(value, list | tuple | set | frozenset):
            yield from ((f"{name}.eq", item) for item in value)
        else:
            yield f"{name}.eq", value


def _bounds(
    at_least: int | None, wait: Wait, max_age: Wait, after: str | None, as_of: AsOf
) -> list[tuple[str, Any]]:
    bounds = [("wait", _duration(wait)), ("max_age", _duration(max_age)), ("as_of", as_of)]
    return [("at_least", at_least), ("after", after), *bounds]


def _duration(given: Wait) -> str | None:
    return f"{given:.3f}s" if isinstance(given, int | float) else given
