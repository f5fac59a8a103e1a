"""Follows the changes of tables on a server: whole batches, each once, also when the connection breaks."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from keyfold.client.connection import LOST, Connections, Ending
from keyfold.errors import QueryError

# The server says every ten seconds that it is there.
_SILENT_SECONDS: Final = 30.0
_FIRST_RETRY: Final = 0.1
_SLOWEST_RETRY: Final = 5.0
_PASSING: Final = ("not_ready", "too_many")
"""The reasons of errors after which a server may answer later."""


@dataclass(frozen=True)
class Changes:
    """The changes of a batch, or with `snapshot` all rows of a table as of that batch.

    A change has `op`, `key` and `after`, and `before` where the log has it. With `position` a later reader
    goes on behind this batch.
    """

    app: str
    table: str
    batch: int | None
    position: str
    snapshot: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)


class Patience:
    """Waits for a server that is away, or has too much to do: longer each time, and not for ever."""

    def __init__(self, seconds: float, ending: Ending) -> None:
        self._seconds, self._ending = seconds, ending
        self.renew()

    def renew(self) -> None:
        """Begins anew, since the server is there."""
        self._away_since: float | None = None
        self._pause = _FIRST_RETRY

    def wait(self, error: QueryError) -> None:
        """Waits before the next try; raises an error that does not pass, or has lasted for too long."""
        if error.reason not in _PASSING:
            raise error
        self._away_since = time.monotonic() if self._away_since is None else self._away_since
        if not self._ending.asked and time.monotonic() - self._away_since >= self._seconds:
            raise error
        self.pause()

    def pause(self) -> None:
        """Waits before the next try."""
        self._ending.pause(self._pause)
        self._pause = min(self._pause * 2, _SLOWEST_RETRY)


def follow(
    connections: Connections,
    tables: Sequence[str],
    snapshot: bool,
    position: str | None,
    patience: float,
    ending: Ending | None = None,
) -> Iterator[Changes]:
    """The batches of some tables, for ever; a server that is away for longer than `patience` is an error."""
    ending = ending or Ending()
    waiting = Patience(patience, ending)
    while not ending.asked:
        try:
            for kind, id_, data, rows in _events(connections, tables, snapshot, position, ending):
                position = id_ or position
                if kind != "begin":
                    # A server that begins each time, and then fails, is as good as away.
                    waiting.renew()
                if kind in ("snapshot", "batch"):
                    yield _whole(kind, data, str(position), rows)
            lost = connections.unreachable(ConnectionError("the server has closed the feed"))
        except LOST as error:
            lost = connections.unreachable(error)
        except QueryError as error:
            lost = error
        waiting.wait(lost)


def _events(
    connections: Connections, tables: Sequence[str], snapshot: bool, position: str | None, ending: Ending
) -> Iterator[tuple[str, str | None, dict[str, Any], list[dict[str, Any]]]]:
    """The events that end something, with the rows or changes before them; `alive` if nothing is new."""
    query = [("tables", ",".join(tables)), ("snapshot", True if snapshot else None), ("position", position)]
    collected: list[dict[str, Any]] = []
    with connections.stream("/api/changes", query, timeout=_SILENT_SECONDS, ending=ending) as answer:
        for kind, id_, data in _parsed(answer):
            if ending.asked:
                return
            if kind == "closed":
                error = data["error"]
                raise QueryError(
                    error["what"], reason=error["reason"], given=data["position"], hint=error["hint"]
                )
            if kind in ("row", "change"):
                collected.append(data["row"] if kind == "row" else data)
                continue
            if kind == "alive":
                yield kind, None, data, []
                continue
            yield kind, id_, data, collected
            collected = []


def _parsed(answer: http.client.HTTPResponse) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    fields: dict[str, str] = {}
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif not value and "event" in fields:
            yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}
        elif value:
            # A comment, once the server has looked at all tables.
            yield "alive", None, {}
        else:
            fields = {}


def _whole(kind: str, data: dict[str, Any], position: str, rows: list[dict[str, Any]]) -> Changes:
    head = (data["app"], data["table"], data["batch"], position)
    if kind == "snapshot":
        return Changes(*head, snapshot=True, rows=rows)
    names = ("op", "key", "before", "after")
    return Changes(*head, changes=[{name: row[name] for name in names if name in row} for row in rows])
