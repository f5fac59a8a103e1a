"""`Policy`: under which names a home is served, whether tokens are needed, how many requests are too many."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from keyfold.errors import BadOption
from keyfold.server.address import Listening, is_loopback

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names under which a browser may reach a server of this machine's own address."""
RATE: Final = 100.0
"""Requests per second from one token or address, where others than this machine may ask."""
_PORT: Final = re.compile(rb":[0-9]{1,5}$")
_RATE: Final = re.compile(r"\s*([0-9]{1,7})\s*(?:requests?)?\s*/\s*(s|second|m|minute)\s*")
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Policy:
    """What the guard checks beside tokens."""

    hosts: frozenset[bytes] | None
    """The values that a Host header may have, with `*` for any port; None for any."""
    schemes: tuple[bytes, ...] = (b"http",)
    """Those of the origin of its own pages."""
    needs_token: bool = False
    """Whether a token is needed even if the home has none."""
    rate: float | None = None
    """Requests per second from one token or address; None for any number."""

    def knows(self, host: bytes) -> bool:
        """Whether the server has that name, the value of a Host header in lower case."""
        return self.hosts is None or host in self.hosts or _PORT.sub(b":*", host) in self.hosts

    @property
    def secure(self) -> bool:
        """Whether browsers may send the cookie over TLS alone."""
        return self.schemes == (b"https",)


def policy_of(
    at: Listening,
    *,
    insecure: bool = False,
    allowed_hosts: Sequence[str] = (),
    rate: float | None = None,
) -> Policy:
    """The policy for an address."""
    # Another name means that a proxy may let others in, which may do TLS.
    own, tls = is_loopback(at.host) and not allowed_hosts, at.tls is not None
    schemes = (b"https",) if tls else (b"http",) if own else (b"http", b"https")
    any_name = not allowed_hosts and _is_wildcard(at.host)
    hosts = None if any_name else hosts_of(at.host, at.port, allowed_hosts, schemes)
    limit = rate if rate is not None or own else RATE
    return Policy(hosts, schemes, needs_token=not own and not insecure, rate=limit)


def hosts_of(
    host: str, port: int, allowed: Iterable[str] = (), schemes: Sequence[bytes] = (b"http",)
) -> frozenset[bytes]:
    """The values that a Host header may have; `allowed`: other names, with any port unless they have one.

    A proxy may listen on a port of its own.
    """
    names = {f"[{host}]" if ":" in host else host, *(LOOPBACK if is_loopback(host) or allowed else ())}
    usual = {80: b"http", 443: b"https"}.get(port)
    with_port = {f"{name}:{port}" for name in names}
    others = {_host_name(one) for one in allowed}
    others |= {f"{one}:*" for one in others if not _PORT.search(one.encode())}
    plain = names if usual in schemes else ()
    return frozenset(name.lower().encode() for name in (*with_port, *plain, *others))


def _host_name(given: str) -> str:
    """A name that a Host header may have, such as `shop.example` or `shop.example:8443`."""
    if not _HOST.fullmatch(given):
        hint = "a name as browsers show it, such as shop.example or shop.example:8443; one per option"
        raise BadOption("not the name of a host", where="--allowed-host", given=repr(given), hint=hint)
    return given.lower()


def rate_of(text: str | None) -> float | None:
    """The requests per second of a text such as `100 requests/s`."""
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise BadOption(
            "not a rate", where="--rate-limit", given=text, hint='"100 requests/s", or "600 requests/minute"'
        )
    return int(found[1]) / (60 if found[2].startswith("m") else 1)


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
