"""`connect`: a client of a keyfold server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from keyfold.client import feed
from keyfold.client.connection import Connections
from keyfold.client.feed import Changes
from keyfold.client.mirror import Mirror
from keyfold.client.table import RemoteTable


class Client:
    """Reads the apps of a server. Thread-safe; as a context manager it is closed at the end."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self.connections.close()

    def apps(self) -> list[str]:
        """The names of the apps of the home."""
        return [app["name"] for app in self.connections.document("/api/apps")["apps"]]

    def status(self, app: str) -> dict[str, Any]:
        """The status of an app, as `keyfold status --json` prints it."""
        return dict(self.connections.document(f"/api/apps/{app}"))

    def table(self, name: str) -> RemoteTable:
        """The rows of `app.table`, or of `table` in a home with one app."""
        return RemoteTable(self.connections, name)

    def changes(
        self, *tables: str, snapshot: bool = False, position: str | None = None, patience: float = 60
    ) -> Iterator[Changes]:
        """The changes of some tables batch by batch, for ever: each batch once, in the order of its table.

        They begin with the next batch, with all rows (`snapshot=True`), or behind a `position` that an
        earlier one had. When the connection breaks, it goes on from the last one; a server that is away for
        longer than `patience` seconds is a `QueryError` not_ready. A position that the log no longer has is a
        `QueryError` gone. A batch, and the rows of a snapshot, are in memory as a whole.
        """
        return feed.follow(self.connections, tables, snapshot, position, patience)

    def mirror(self, table: str, path: str | PathLike[str] | None = None, *, patience: float = 60) -> Mirror:
        """A copy of a table in memory, or in a SQLite file, that a thread keeps in step with the server.

        It returns once there are rows to read. A file goes on from where it was, also without the server. A
        server that is away for longer than `patience` seconds, and any other error, ends the mirror: reads
        then raise it. Close it at the end, or use it as a context manager.
        """
        return Mirror(self.connections, self.table(table), None if path is None else Path(path), patience)


def connect(url: str = "http://127.0.0.1:8642", *, token: str | None = None, timeout: float = 90) -> Client:
    """A client of the server at an address. `timeout`: how many seconds an answer may take.

    `token`: that of `keyfold token create`; by default the one in the environment variable KEYFOLD_TOKEN.
    """
    return Client(Connections(url, timeout, os.environ.get("KEYFOLD_TOKEN") if token is None else token))
