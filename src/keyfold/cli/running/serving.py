"""Serves a home over HTTP while a command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.cli.home.homes import is_elsewhere
from keyfold.server import address
from keyfold.server.serving import Serving

if TYPE_CHECKING:
    from keyfold.read import HomeReader
    from keyfold.server.address import Listening


@dataclass(frozen=True)
class Address:
    """Where a run serves; a port that was not asked for may be another one."""

    host: str = address.HOST
    port: int | None = None


@contextmanager
def served(reader: HomeReader, host: str, port: int) -> Iterator[Serving]:
    """Serves a home meanwhile; a port that is taken is an error."""
    with _running(reader, address.listen(address.loopback(host), port)) as serving:
        yield serving


@contextmanager
def served_beside(
    asked: Address | None, home: str | Path | None, settings: Mapping[str, Any]
) -> Iterator[str | None]:
    """Serves the home of a run meanwhile, and has words that say where; None: does not serve.

    The default port may be taken, as by another run: then it is the next one that is free.
    """
    if asked is None:
        yield None
        return
    from keyfold.read import open_home

    found = _listening(asked)
    if found is None:
        yield f"not serving: port {address.PORT} and those after it are in use; --port N takes another"
        return
    other = asked.port is None and found.port != address.PORT
    why = f"; port {address.PORT} is in use by another process" if other else ""
    with open_home(_local(home, settings)) as reader, _running(reader, found) as serving:
        yield f"serving on {serving.url}{why}"


def _listening(asked: Address) -> Listening | None:
    host = address.loopback(asked.host)
    if asked.port is not None:
        return address.listen(host, asked.port)
    return address.listen_from(host, address.PORT)


def _local(home: str | Path | None, settings: Mapping[str, Any]) -> Path | str | None:
    """The directory to read: that of the local files if the home is elsewhere."""
    if not is_elsewhere(None if home is None else str(home)):
        return home
    from keyfold.settings import load

    return load(home=home, **settings).local_directory


@contextmanager
def _running(reader: HomeReader, listening: Listening) -> Iterator[Serving]:
    serving = Serving(reader, listening)
    serving.start()
    try:
        yield serving
    finally:
        serving.stop()
