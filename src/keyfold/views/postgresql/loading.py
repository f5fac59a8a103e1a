"""Reads values as the server sends them: temporal ones as canonical integers, JSON as its text."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

# PostgreSQL counts from 2000-01-01.
_DAYS: Final = 10_957
_MICROS: Final = _DAYS * 86_400_000_000
_INT4, _INT8 = struct.Struct("!i").unpack, struct.Struct("!q").unpack


def register(connection: psycopg.Connection[Any]) -> None:
    """Has a connection read binary results so."""
    for name, loader in _loaders().items():
        connection.adapters.register_loader(name, loader)


def _loaders() -> dict[str, Any]:
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    class Binary(Loader):
        format = Format.BINARY

    class Days(Binary):
        def load(self, data: Any) -> int:
            return int(_INT4(data)[0]) + _DAYS

    class Micros(Binary):
        def load(self, data: Any) -> int:
            return int(_INT8(data)[0]) + _MICROS

    class Clock(Binary):
        def load(self, data: Any) -> int:
            return int(_INT8(data)[0]) * 1000

    class Text(Binary):
        def load(self, data: Any) -> str:
            return bytes(data).decode()

    return {"date": Days, "timestamp": Micros, "timestamptz": Micros, "time": Clock, "json": Text}
