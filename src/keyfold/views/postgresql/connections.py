"""Connections to the database of a location: a pool, in which each serves one reader or writer at a time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from keyfold.errors import HomeUnusable
from keyfold.views.contract import Location
from keyfold.views.postgresql import address, failures, loading

if TYPE_CHECKING:
    import psycopg

_CONNECT_SECONDS: Final = 5
_LOCK_SECONDS: Final = 60
_IDLE: Final = 4
_SORT_MEMORY: Final = "64MB"
# Spark commits a batch after the view does, so that commit must not be lost when the server's power is.
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Begins a transaction that reads as of one moment."""
SNAPSHOT_WITH_STAGING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ"
"""The same, which may also write temporary tables."""
CHANGE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction that writes."""


def connect(location: Location) -> psycopg.Connection[Any]:
    """A new connection, without an open transaction; fails within seconds if the server does not answer."""
    client = failures.client()
    wanted = address.split(location.address)[0]
    options: dict[str, Any] = {
        "application_name": f"keyfold {location.app}",
        "connect_timeout": _CONNECT_SECONDS,
        "keepalives_idle": 30,
        "tcp_user_timeout": 60_000,
        # Plans would outlive a table that a rebuild creates again.
        "prepare_threshold": None,
        "autocommit": True,
    }
    given = client.conninfo.conninfo_to_dict(wanted)
    own = {name: value for name, value in options.items() if name not in given}
    connection: psycopg.Connection[Any] = client.connect(
        wanted, **{**own, **address.secrets_of(location.address)}
    )
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: psycopg.Connection[Any]) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise HomeUnusable(
            "the database can't hold all text",
            given=f"its encoding is {encoding}",
            hint="a database of encoding UTF8: createdb --encoding=UTF8 --template=template0 NAME",
        )
    settings = {
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
        "DateStyle": "ISO, MDY",
        "extra_float_digits": "1",
        "lock_timeout": f"{_LOCK_SECONDS}s",
        "work_mem": _SORT_MEMORY,
        # A batch waits for its rows, and a slow reader holds a scan.
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
    }
    calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
    connection.execute(f"SELECT {calls}", [part for pair in settings.items() for part in pair])
    connection.execute(_DURABLE)
    loading.register(connection)


@contextmanager
def opened(location: Location) -> Iterator[psycopg.Connection[Any]]:
    """A connection for a while."""
    connection = connect(location)
    try:
        yield connection
    finally:
        connection.close()


class Pool:
    """Connections that are kept for the next reader or writer."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = threading.Lock()
        self._closed = False
        # A reader that nobody closes, such as one of a notebook's cell, leaves no session on the server.
        weakref.finalize(self, _close_all, self._idle)

    @contextmanager
    def use(self, begin: str) -> Iterator[psycopg.Connection[Any]]:
        """A connection inside a transaction, which is rolled back unless it is committed within."""
        connection = self.take(begin)
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self, begin: str | None) -> psycopg.Connection[Any]:
        """A connection, and begins a transaction on it; a server that was restarted is connected to again."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            try:
                connection.execute(begin or "SELECT 1")
                return connection
            except failures.client().OperationalError:
                connection.close()
        connection = connect(self._location)
        if begin is not None:
            connection.execute(begin)
        return connection

    def give_back(self, connection: psycopg.Connection[Any]) -> None:
        """Ends the transaction and keeps the connection, unless it is broken."""
        usable = False
        with suppress(failures.client().Error):
            if connection.info.transaction_status != 0:
                connection.execute("ROLLBACK")
            usable = not connection.closed
        with self._lock:
            if usable and not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Closes idle connections now, and those in use when they are given back."""
        with self._lock:
            self._closed = True
            _close_all(self._idle)


def _close_all(idle: list[psycopg.Connection[Any]]) -> None:
    while idle:
        idle.pop().close()
