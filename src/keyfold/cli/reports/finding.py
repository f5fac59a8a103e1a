"""What a check of this machine finds, and the checks of its ports and its locale."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check; `ok` is None for a warning."""

    what: str
    ok: bool | None
    found: str
    do: str | None = None


def ports() -> Finding:
    """Python, Java and Spark communicate through ephemeral ports of the loopback interface."""
    try:
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.settimeout(5)
            client.connect(server.getsockname())
    except OSError as error:
        do = "Python and Spark communicate over 127.0.0.1: check firewall, network namespace and limits"
        return Finding("ports", False, f"127.0.0.1 is not usable: {error}", do)
    return Finding("ports", True, "127.0.0.1 is usable")


def locale() -> Finding:
    """Whether all characters can be printed."""
    encoding = sys.stdout.encoding or "?"
    if encoding.lower().startswith("utf"):
        return Finding("locale", True, encoding)
    do = "characters outside of it are shown as escapes; set LANG=C.UTF-8"
    return Finding("locale", None, encoding, do)
