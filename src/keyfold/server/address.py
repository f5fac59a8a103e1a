"""Where the server listens: the address of this host alone, and a port that is free."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import Final

from keyfold.errors import BadOption, RunError

HOST: Final = "127.0.0.1"
PORT: Final = 8642
_TRIED: Final = 100


class PortInUse(RunError):
    """Another process listens on the port."""


@dataclass(frozen=True)
class Listening:
    """A socket that listens, and under which name."""

    host: str
    socket: socket.socket

    @property
    def port(self) -> int:
        """The port, also if any was asked for."""
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The address for a browser."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def loopback(host: str) -> str:
    """The host, if it can be reached from this machine alone; the address of localhost."""
    if host.lower() == "localhost":
        return HOST
    # An IPv6 address as a URL has it.
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        if ipaddress.ip_address(name).is_loopback:
            return name
    except ValueError:
        pass
    raise BadOption(
        "only this machine's own address can be served in this version: who may read is not checked yet",
        where="--host",
        given=host or "an empty text",
        hint=f"--host {HOST}, and from elsewhere an SSH tunnel: ssh -L {PORT}:{HOST}:{PORT} THIS_HOST; "
        "other addresses need tokens, which a later version will have",
    )


def listen(host: str, port: int) -> Listening:
    """Listens on a port, 0 for any; if it is taken, the error names the next one that is free."""
    try:
        return _listening(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            what = f"can't listen on {host}:{port}: {error.strerror or error}"
            raise RunError(what, given=f"{host}:{port}", hint="--port 8642") from None
    free = _next_free(host, port)
    hint = "another --port" if free is None else f"--port {free}, which is free"
    what = f"port {port} is in use by another process"
    raise PortInUse(what, where=host, given=f"--port {port}", hint=hint)


def listen_from(host: str, port: int) -> Listening | None:
    """Listens on a port, or on the next one that is free; None if there is none."""
    free = _next_free(host, port - 1)
    try:
        return None if free is None else _listening(host, free)
    except OSError:
        return None


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
