"""Where the server listens: an address that may be served, and a port that is free."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from keyfold.errors import BadOption, RunError

HOST: Final = "127.0.0.1"
PORT: Final = 8642
_TRIED: Final = 100


class PortInUse(RunError):
    """Another process listens on the port."""


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate, with those that sign it, and of its private key."""

    certificate: str
    key: str


@dataclass(frozen=True)
class Listening:
    """A socket that listens, and under which name."""

    host: str
    socket: socket.socket
    tls: Certificate | None = None

    @property
    def port(self) -> int:
        """The port, also if any was asked for."""
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The address for a browser."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def checked_host(host: str) -> str:
    """The host to listen on; the address of localhost, and an IPv6 address without a URL's brackets."""
    if host.lower() == "localhost":
        return HOST
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not name:
        raise BadOption("no address to serve on", where="--host", given="an empty text", hint=HOST)
    return name


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_tokens(host: str, home: Path, *, insecure: bool, others: Sequence[str] = ()) -> str | None:
    """Refuses to serve others than this machine without tokens; what to warn of, if anything.

    `others`: names under which a proxy may let them in.
    """
    from keyfold.read.tokens import tokens_of

    if is_loopback(host) and not others:
        return None
    if insecure:
        return f"--insecure: everybody who reaches {host} can read all rows of {home} while it has no tokens"
    if not tokens_of(home):
        raise BadOption(
            "others than this machine could read the home, which has no tokens",
            where=home,
            given=" ".join((f"--host {host}", *(f"--allowed-host {one}" for one in others))),
            hint=f"keyfold token create NAME --home {home}; or --insecure, to serve everybody until then",
        )
    return None


def listen(host: str, port: int, tls: Certificate | None = None) -> Listening:
    """Listens on a port, 0 for any; if it is taken, the error names the next one that is free."""
    try:
        return replace(_listening(host, port), tls=tls)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            what = f"can't listen on {host}:{port}: {error.strerror or error}"
            raise RunError(what, given=f"{host}:{port}", hint="--port 8642") from None
    free = _next_free(host, port)
    hint = "another --port" if free is None else f"--port {free}, which is free"
    what = f"port {port} is in use by another process"
    raise PortInUse(what, where=host, given=f"--port {port}", hint=hint)


def listen_from(host: str, port: int, tls: Certificate | None = None) -> Listening | None:
    """Listens on a port, or on the next one that is free; None if there is none."""
    free = _next_free(host, port - 1)
    try:
        return None if free is None else replace(_listening(host, free), tls=tls)
    except OSError:
        return None


def certificate_of(certificate: str | None, key: str | None) -> Certificate | None:
    """The files of a certificate, which are read once, so that a wrong one is noticed at the start."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given = "--tls-key" if certificate is None else "--tls-cert"
        raise BadOption(
            "TLS needs a certificate and its key", given=given, hint="--tls-cert FILE --tls-key FILE"
        )
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        given = f"--tls-cert {certificate} --tls-key {key}"
        hint = "files in PEM: the certificate with those that sign it, and its private key without a password"
        raise BadOption(f"the certificate can't be used: {error}", given=given, hint=hint) from None
    return Certificate(certificate, key)


def _next_free(host: str, port: int) -> int | None:
    for other in range(port + 1, min(port + _TRIED, 65_535) + 1):
        try:
            _listening(host, other).socket.close()
        except OSError:
            continue
        return other
    return None


def _listening(host: str, port: int) -> Listening:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        # From now on clients are taken in, and wait until the server is up.
        made.listen(1024)
    except BaseException:
        made.close()
        raise
    return Listening(host, made)
