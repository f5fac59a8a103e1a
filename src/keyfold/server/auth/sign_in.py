"""The sign-in page: a person shows a token once, and the browser sends it from then on as a cookie.

The server keeps nothing of it. Only requests of its own pages have the cookie (SameSite=Strict), and no
script reads it (HttpOnly).
"""

from __future__ import annotations

import html
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from keyfold.errors import QueryError
from keyfold.read.tokens import TokenReader
from keyfold.server.auth.credentials import COOKIE, of_text
from keyfold.server.connection.body import read_body
from keyfold.server.endpoint import error_response

IN: Final = "/sign-in"
OUT: Final = "/sign-out"
_MOST_BYTES: Final = 8_192
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    # With no-referrer a browser would send the form with the origin null.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign in to keyfold</title></head><body><main>
<h1>Sign in to keyfold</h1>
<form method="post" action="{action}">
<p><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>
<input type="hidden" name="to" value="{to}">
<p><button>Sign in</button></p>
</form>
<p role="alert">{problem}</p>
<p>Tokens are made by <code>keyfold token create NAME</code>.</p>
</main></body></html>
"""


def page(to: str, problem: str = "", status: int = 401) -> Response:
    """The page that asks for a token; `to`: where to go then."""
    values = {"action": IN, "to": html.escape(_local(to)), "problem": html.escape(problem)}
    return HTMLResponse(_PAGE.format(**values), status, headers=_HEADERS)


class SignIn:
    """Answers what the form sends, and the request to sign out."""

    def __init__(self, tokens: TokenReader, *, secure: bool) -> None:
        self._tokens, self._secure = tokens, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            response = await self._response(Request(scope, receive))
            await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        if request.method != "POST":
            return page("/", status=200)
        if "origin" not in request.headers:
            # Else a page elsewhere could sign a person in as somebody else, or out.
            what = "a form must say its origin"
            return error_response(QueryError(what, reason="forbidden", hint="an Origin header"))
        if request.scope["path"] == OUT:
            gone = RedirectResponse("/", 303)
            gone.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=self._tls(request))
            return gone
        return await self._signed_in(request)

    async def _signed_in(self, request: Request) -> Response:
        try:
            content = await read_body(request, _MOST_BYTES, "form")
        except QueryError as error:
            return error_response(error)
        fields = parse_qs(content.decode("utf-8", "replace"))
        text, to = ("".join(fields.get(name, ())).strip() for name in ("token", "to"))
        try:
            of_text(text, self._tokens)
        except QueryError as error:
            return page(to, f"Not signed in: {error.what}.")
        found = RedirectResponse(_local(to), 303, headers={"cache-control": "no-store"})
        secure = self._tls(request)
        found.set_cookie(COOKIE, text, path="/", httponly=True, samesite="strict", secure=secure)
        return found

    def _tls(self, request: Request) -> bool:
        """Whether the browser speaks TLS, with this server or with a proxy before it."""
        return self._secure or request.headers["origin"].startswith("https:")


def _local(to: str) -> str:
    """An address of this server: others, which a link may have brought along, are not gone to."""
    ours = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if ours and "\\" not in to else "/"
