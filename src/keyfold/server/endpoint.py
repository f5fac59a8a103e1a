"""Answers a request by its route: reads the parameters, waits for the view, runs the route in a thread."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from keyfold.errors import QueryError
from keyfold.server import answers, freshness
from keyfold.server.answers import EVENTS, JSON, Streamed
from keyfold.server.auth.access import of_request as access_of
from keyfold.server.connection.body import read_body
from keyfold.server.error_body import error_document, status_of
from keyfold.server.granted.home import GrantedHome, GrantedHomes
from keyfold.server.parameters import read_query
from keyfold.server.route import IN_SCOPE, Call, Route
from keyfold.server.served_home import ServedHome
from keyfold.server.streaming import streamed

MOST_BYTES: Final = 1 << 20
"""How long the body of a request may be."""
MOST_FEEDS: Final = 1_000
"""How many change feeds there are at once."""


class Endpoint:
    """An ASGI app that answers the requests of one route."""

    def __init__(self, route: Route, homes: GrantedHomes) -> None:
        self._route, self._homes = route, homes
        self._feeds = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[IN_SCOPE] = self._route
        request = Request(scope, receive)
        with suppress(ClientDisconnect), self._one_more() as refused:
            response = await self._response(request) if refused is None else error_response(refused)
            await response(scope, receive, send)

    @contextmanager
    def _one_more(self) -> Iterator[QueryError | None]:
        """Counts a feed meanwhile; an error if there are too many."""
        if EVENTS not in self._route.media:
            yield None
            return
        if self._feeds >= MOST_FEEDS:
            given, hint = f"{self._feeds:,} feeds", "one feed follows several tables; come again later"
            yield QueryError("too many feeds", reason="too_many", given=given, hint=hint)
            return
        self._feeds += 1
        try:
            yield None
        finally:
            self._feeds -= 1

    async def _response(self, request: Request) -> Response:
        call = app = None
        access = access_of(request.scope)
        home, of_table = self._homes.of(access), self._route.of_table
        do = home.in_thread
        try:
            access.require(self._route.role)
            call = self._call(home, request, await _body(request, self._route))
            if of_table or "app" in call.path:
                app = await run_in_threadpool(lambda: call.app)
            if of_table and app is not None:
                await freshness.reach(app, call.path["table"], call.values, home)
            return await do(app, self._answered, call, request.headers.get("if-none-match"))
        except ClientDisconnect:
            raise
        except Exception as error:
            return await do(app, error_response, error, call if of_table else None)

    def _call(self, home: ServedHome | GrantedHome, request: Request, body: Any) -> Call:
        route = self._route
        values, others = read_query(request.query_params.multi_items(), route.accepted, others=route.filters)
        raw_path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        accept = ",".join(request.headers.getlist("accept"))
        last = request.headers.get("last-event-id")
        return Call(home, request.path_params, raw_path, values, others, accept, body, last)

    def _answered(self, call: Call, known: str | None) -> Response:
        route, headers = self._route, {}
        if route.of_table:
            # Before the rows are read, so that these are at least as new.
            call.view.refuse_older(call.values["max_age"])
            headers = call.view.headers()
        etag = call.view.etag if route.cached else None
        if etag is not None:
            headers["etag"] = etag
            headers["vary"] = freshness.VARY
            if freshness.matches(etag, known):
                return Response(status_code=304, headers=headers)
        found = route.handle(call)
        if isinstance(found, Streamed):
            return streamed(found, headers, call.home.requests)
        return Response(answers.encode(found), headers=headers, media_type=JSON)


def error_response(
    error: BaseException, call: Call | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """An error as a response, with the freshness of the table that was asked for."""
    found: dict[str, Any] = {}
    more = dict(headers or {})
    if call is not None:
        with suppress(Exception):
            found, more = call.now.freshness(), {**call.now.headers(), **more}
    status = status_of(error)
    if status in (429, 503):
        more["retry-after"] = "1"
    if status == 408:
        more["connection"] = "close"
    if status == 401:
        more["www-authenticate"] = "Bearer"
    content = answers.encode(error_document(error, found))
    return Response(content, status, headers=more, media_type=JSON)


async def _body(request: Request, route: Route) -> Any:
    if route.body is None:
        return None
    content = await read_body(request, MOST_BYTES)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        what = f"the body is not JSON: {error}"
        raise QueryError(what, given=f"{len(content):,} bytes", hint='{"keys": [...]}') from None
