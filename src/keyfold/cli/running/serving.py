"""Serves a home over HTTP while a command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.cli import output
from keyfold.cli.home.homes import is_elsewhere
from keyfold.server import address
from keyfold.server.auth.policy import policy_of, rate_of
from keyfold.server.serving import Serving

if TYPE_CHECKING:
    from keyfold.read import HomeReader
    from keyfold.server.address import Listening
    from keyfold.server.auth.policy import Policy


@dataclass(frozen=True)
class Address:
    """Where and to whom a command serves; a port that was not asked for may be another one."""

    host: str = address.HOST
    port: int | None = None
    insecure: bool = False
    allowed_hosts: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    rate_limit: str | None = None

    def listening(self, home: Path) -> Listening | None:
        """Listens, if others than this machine may be served; None if no port is free."""
        host, tls = address.checked_host(self.host), address.certificate_of(self.tls_cert, self.tls_key)
        rate_of(self.rate_limit)
        warning = address.require_tokens(host, home, insecure=self.insecure, others=self.allowed_hosts)
        if warning is not None:
            output.say(f"warning: {warning}")
        elif tls is None and not address.is_loopback(host):
            output.say("warning: tokens and rows are sent as plain text; --tls-cert, or a proxy, does TLS")
        if self.port is not None:
            return address.listen(host, self.port, tls)
        return address.listen_from(host, address.PORT, tls)

    def policy(self, at: Listening) -> Policy:
        """Whom to serve there."""
        rate = rate_of(self.rate_limit)
        return policy_of(at, insecure=self.insecure, allowed_hosts=self.allowed_hosts, rate=rate)


@contextmanager
def served(reader: HomeReader, asked: Address) -> Iterator[Serving]:
    """Serves a home meanwhile; a port that is taken is an error."""
    found = asked.listening(reader.directory)
    assert found is not None, "a port is given"
    with _running(reader, found, asked) as serving:
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

    with open_home(_local(home, settings)) as reader:
        found = asked.listening(reader.directory)
        if found is None:
            yield f"not serving: port {address.PORT} and those after it are in use; --port N takes another"
            return
        other = asked.port is None and found.port != address.PORT
        why = f"; port {address.PORT} is in use by another process" if other else ""
        with _running(reader, found, asked) as serving:
            yield f"serving on {serving.url}{why}"


def _local(home: str | Path | None, settings: Mapping[str, Any]) -> Path | str | None:
    """The directory to read: that of the local files if the home is elsewhere."""
    if not is_elsewhere(None if home is None else str(home)):
        return home
    from keyfold.settings import load

    return load(home=home, **settings).local_directory


@contextmanager
def _running(reader: HomeReader, listening: Listening, asked: Address) -> Iterator[Serving]:
    serving = Serving(reader, listening, asked.policy(listening))
    serving.start()
    try:
        yield serving
    finally:
        serving.stop()
