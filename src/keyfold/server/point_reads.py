"""Reads of one key without parameters, the most frequent request, without Starlette.

It answers what the route `get_row` would, byte for byte but for the age, which a test compares. All else, and
each failure, is left to that route.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from keyfold.read.values import plain, utf8
from keyfold.server import freshness
from keyfold.server.answers import JSON
from keyfold.server.auth.access import of_request as access_of
from keyfold.server.freshness import View
from keyfold.server.granted.home import GrantedHomes
from keyfold.server.key_paths import key_parts
from keyfold.server.route import IN_SCOPE
from keyfold.server.routes.keys import GET_ROW

_MEDIA: Final = (b"content-type", JSON.encode())
_VARY: Final = (b"vary", freshness.VARY.encode())


class PointReads:
    """Answers reads of one key from views that read at once, and hands all other requests on."""

    def __init__(self, app: ASGIApp, homes: GrantedHomes) -> None:
        self._app, self._homes = app, homes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope)
        if answer is None:
            await self._app(scope, receive, send)
            return
        scope[IN_SCOPE] = GET_ROW
        status, headers, body = answer
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
        if scope["method"] != "GET" or scope["query_string"]:
            return None
        path: bytes = scope["raw_path"]
        parts = path.split(b"/", 7)
        if parts[1:3] == [b"api", b"apps"] and parts[4:5] == [b"tables"] and parts[6:7] == [b"keys"]:
            name: str | None = parts[3].decode("latin-1")
            table = parts[5]
        elif parts[1:3] == [b"api", b"tables"] and parts[4:5] == [b"keys"]:
            name, table = None, parts[3]
        else:
            return None
        access = access_of(scope)
        if not access.may(GET_ROW.role):
            return None
        app = self._homes.of(access).recent(name)
        if app is None or not app.views.reads_at_once or path.endswith((b"/history", b"/explain")):
            return None
        try:
            found = app.views.read_key(table.decode("latin-1"), key_parts(path))
        except Exception:
            # The route tries again, and says why.
            return None
        if found.row is None or found.position is None:
            return None
        view = View(app, found.table, found.position, found.edition)
        headers = [(name.encode(), value.encode()) for name, value in view.headers().items()]
        etag = (view.etag or "").encode()
        headers += [(b"etag", etag), _VARY]
        for header, given in scope["headers"]:
            if header == b"if-none-match" and freshness.matches(view.etag, given.decode("latin-1")):
                return 304, headers, b""
        body = utf8(plain({**view.fields(), "row": found.row}))
        return 200, [*headers, (b"content-length", str(len(body)).encode()), _MEDIA], body
