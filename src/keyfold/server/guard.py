"""Refuses requests that other web pages make through a browser, and sets headers that protect answers.

A page of another host can have its name point to 127.0.0.1 (DNS rebinding), so only the names of the loopback
address are accepted as Host. Tokens, with which other addresses can be served, are to be checked here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyfold.errors import QueryError
from keyfold.server.endpoint import error_response

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names under which a browser may reach the server."""
HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"private, no-cache"),
)
"""Headers of every answer; a route may have others of the same name, such as another Cache-Control."""
_NAMES: Final = frozenset(name for name, _ in HEADERS)


def hosts_of(host: str, port: int) -> frozenset[bytes]:
    """The values that a Host header may have."""
    names = {*LOOPBACK, f"[{host}]" if ":" in host else host}
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(name.encode() for name in (*with_port, *(names if port == 80 else ())))


class Guard:
    """Checks Host and Origin of each request, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, hosts: Iterable[bytes]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_headers(message.get("headers", ()))
            await send(message)

        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        app = self._app if refused is None else error_response(refused)
        await app(scope, receive, sent)

    def _refused(self, scope: Scope) -> QueryError | None:
        host: bytes | None = None
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    return _forbidden("the request has several Host headers", value, self._hosts)
                host = value
            elif name == b"origin" and value.lower() not in self._origins:
                return _forbidden("pages of other origins may not read this server", value, self._origins)
        if host is None or host.lower() not in self._hosts:
            return _forbidden("this server has another name", host, self._hosts)
        return None


def _with_headers(own: Iterable[Any]) -> list[Any]:
    found = list(own)
    given = {name for name, _ in found if name in _NAMES}
    return [*found, *(one for one in HEADERS if one[0] not in given)]


def _forbidden(what: str, given: bytes | None, known: Iterable[bytes]) -> QueryError:
    shown = None if given is None else given.decode("latin-1")
    hint = f"one of: {', '.join(sorted(one.decode() for one in known))}"
    return QueryError(what, reason="forbidden", given=shown, hint=hint)
