"""Refuses requests of other web pages, those without a token, and too many; protects answers by headers.

A page of another host can have its name point to 127.0.0.1 (DNS rebinding), so that the names under which a
server is asked are checked, with and without tokens. All requests come through here: what is behind it reads
who asks from the request, and a request without that may do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyfold.errors import QueryError
from keyfold.read.tokens import TokenReader
from keyfold.server.auth import access, credentials, sign_in
from keyfold.server.auth.access import Access
from keyfold.server.auth.policy import Policy
from keyfold.server.auth.rate_limit import RateLimit
from keyfold.server.auth.sign_in import SignIn
from keyfold.server.console.static import is_page
from keyfold.server.endpoint import error_response

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
OPEN: Final = "/healthz"
"""What everybody may ask: whether the server is there."""
LONGEST: Final = 60_000
"""How long an address may be, in bytes; the parser below knows no longer ones than 65,535."""


class Guard:
    """Checks each request, remembers who sends it, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, policy: Policy, tokens: TokenReader) -> None:
        self._app, self._policy, self._tokens = app, policy, tokens
        self._rates = RateLimit(policy.rate)
        self._sign_in = SignIn(tokens, secure=policy.secure)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app, found = self._admitted(scope)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_headers(message.get("headers", ()))
            elif found is not None and message.get("more_body"):
                # An answer may take as long as a feed; a token may be revoked meanwhile, or the first made.
                self._require_still(scope, found)
            await send(message)

        await app(scope, receive, sent)

    def _admitted(self, scope: Scope) -> tuple[ASGIApp, Access | None]:
        """What answers a request, and who sends it where that matters."""
        try:
            self._refuse_long(scope)
            self._refuse_others(scope)
            path = scope["path"]
            if path in (sign_in.IN, sign_in.OUT):
                self._count(scope, None)
                return self._sign_in, None
            if path == OPEN:
                # Not counted: whoever asks whether the server is there is not to hear that it is busy.
                return self._app, None
            found = self._access(scope)
            self._count(scope, found)
            access.remember(scope, found)
            return self._app, found
        except Exception as error:
            # Whatever it is, nobody gets in, and the answer is protected like all others.
            if _may_sign_in(scope, error):
                return sign_in.page(_address(scope)), None
            return error_response(error), None

    def _access(self, scope: Scope) -> Access:
        try:
            return credentials.access_of(scope, self._tokens, needed=self._policy.needs_token)
        except QueryError:
            self._count(scope, None)
            raise

    def _count(self, scope: Scope, found: Access | None) -> None:
        named = found is not None and found.token is not None
        sender = f"token {found.token}" if found is not None and named else f"from {_client(scope)}"
        if not self._rates.take(sender):
            given = f"more than {self._policy.rate:g} requests per second, {sender}"
            raise QueryError(
                "too many requests", reason="too_many", given=given, hint="fewer at once, or --rate-limit"
            )

    def _require_still(self, scope: Scope, found: Access) -> None:
        if credentials.access_of(scope, self._tokens, needed=self._policy.needs_token) != found:
            raise QueryError("the token has another scope now", reason="unauthorized")

    def _refuse_long(self, scope: Scope) -> None:
        length = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if length > LONGEST:
            what, hint = (
                "the address is too long",
                f"at most {LONGEST:,} bytes; batch-get takes keys in a body",
            )
            raise QueryError(what, reason="too_long", given=f"{length:,} bytes", hint=hint)

    def _refuse_others(self, scope: Scope) -> None:
        """Refuses other names than this server's, and pages of other origins."""
        host: bytes | None = None
        origins: list[bytes] = []
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    raise _forbidden("the request has several Host headers", value, self._policy.hosts)
                host = value.lower()
            elif name == b"origin":
                origins.append(value)
        if host is None or not self._policy.knows(host):
            raise _forbidden("this server has another name", host, self._policy.hosts)
        own = [b"%s://%s" % (scheme, one) for one in self._same(host) for scheme in self._policy.schemes]
        for origin in origins:
            if origin.lower() not in own:
                raise _forbidden("pages of other origins may not read this server", origin, own)

    def _same(self, host: bytes) -> Iterable[bytes]:
        return (host,) if self._policy.hosts is None else {host, *self._policy.hosts}


def _with_headers(own: Iterable[Any]) -> list[Any]:
    found = list(own)
    given = {name for name, _ in found if name in _NAMES}
    return [*found, *(one for one in HEADERS if one[0] not in given)]


def _may_sign_in(scope: Scope, error: Exception) -> bool:
    """Whether a person may show a token instead of getting the error."""
    unauthorized = isinstance(error, QueryError) and error.reason == "unauthorized"
    return unauthorized and scope["method"] in ("GET", "HEAD") and is_page(scope["path"])


def _address(scope: Scope) -> str:
    path = (scope.get("raw_path") or b"/").decode("latin-1").partition("?")[0]
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("nowhere",))[0])


def _forbidden(what: str, given: bytes | None, known: Iterable[bytes] | None) -> QueryError:
    shown = None if given is None else given.decode("latin-1")
    hint = f"one of: {', '.join(sorted(one.decode() for one in known))}" if known else "--allowed-host NAME"
    return QueryError(what, reason="forbidden", given=shown, hint=hint)
