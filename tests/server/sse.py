"""Reads server-sent events from a server, one by one."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keyfold.server.serving import Serving


@dataclass(frozen=True)
class Event:
    """An event: its kind, its data, and its id if it has one."""

    kind: str
    data: dict[str, Any]
    id: str | None


class Reader:
    """A connection to a change feed. As an iterator it has the events; comments are counted."""

    def __init__(self, server: Serving, query: str, **headers: str) -> None:
        host = server.url.removeprefix("http://")
        self.connection = http.client.HTTPConnection(host, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request("GET", f"/api/changes?{query}", headers=given)
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.comments = 0

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif value:
                self.comments += 1
            if line == "\n":
                if "event" in fields:
                    yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
                fields = {}

    def until(self, kind: str, count: int = 1) -> list[Event]:
        """The events until the last of some of a kind."""
        found: list[Event] = []
        events = iter(self)
        while sum(event.kind == kind for event in found) < count:
            found.append(next(events))
        return found

    def close(self) -> None:
        """Leaves."""
        self.answer.close()
        self.connection.close()
