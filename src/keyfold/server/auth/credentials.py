"""What a request shows for itself: a token in its Authorization header, or in the cookie of a browser."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import HomeUnusable, QueryError
from keyfold.read.tokens import TokenReader
from keyfold.server.auth.access import EVERYTHING, Access, of_token

COOKIE: Final = "keyfold_token"
SAFE: Final = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
_LOG: Final = logging.getLogger("keyfold.server")
_HINT: Final = "Authorization: Bearer TOKEN, of keyfold token create NAME"


@dataclass(frozen=True)
class Shown:
    """The text of a token, and where it was."""

    text: str
    by_cookie: bool


def shown(scope: Any) -> Shown | None:
    """What a request shows; a header comes before a cookie."""
    cookie: Shown | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").strip().partition(" ")
            if kind.lower() != "bearer":
                raise _unauthorized("the Authorization header has no bearer token")
            return Shown(text.strip(), by_cookie=False)
        if name == b"cookie" and (found := _cookie(value)):
            cookie = Shown(found, by_cookie=True)
    return cookie


def access_of(scope: Any, tokens: TokenReader, *, needed: bool) -> Access:
    """Who sends a request. `needed`: whether a token is needed even if the home has none."""
    with _reading_tokens():
        if not needed and not tokens.any:
            return EVERYTHING
    found = shown(scope)
    if found is None:
        raise _unauthorized("a token is needed")
    if found.by_cookie and scope["method"] not in SAFE and not _has_origin(scope):
        what = "a request that changes something by a cookie must say its origin"
        raise QueryError(what, reason="forbidden", hint="an Origin header, or the token in Authorization")
    return of_text(found.text, tokens)


def of_text(text: str, tokens: TokenReader) -> Access:
    """Who shows a token; the error does not repeat its text."""
    with _reading_tokens():
        token = tokens.find(text)
    if token is None:
        raise _unauthorized("unknown token")
    if token.state != "valid":
        ended = "was revoked" if token.state == "revoked" else "has expired"
        raise _unauthorized(f"the token {token.name} {ended}")
    return of_token(token)


@contextmanager
def _reading_tokens() -> Iterator[None]:
    """Where the tokens are, and what is wrong with them, is for the log alone."""
    try:
        yield
    except HomeUnusable as error:
        _LOG.error("nobody is let in: %s", error)
        hint = "the log of the server says why"
        raise QueryError("it is not known who may read", reason="not_ready", hint=hint) from None


def _unauthorized(what: str) -> QueryError:
    return QueryError(what, reason="unauthorized", hint=_HINT)


def _has_origin(scope: Any) -> bool:
    # That it is the right one is checked for every request that has it.
    return any(name == b"origin" for name, _ in scope["headers"])


def _cookie(header: bytes) -> str | None:
    # Other servers of the same host may have set cookies that Python's parser takes for the end of all.
    found: str | None = None
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.partition("=")
        if name.strip() == COOKIE:
            found = value.strip().strip('"')
    return found
