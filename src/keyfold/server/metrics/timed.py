"""`Timed`: times each request by its route."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyfold.server.answers import EVENTS
from keyfold.server.metrics.requests import ServerMetrics
from keyfold.server.route import IN_SCOPE, Route


class Timed:
    """Times each request."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        begun = time.perf_counter()
        try:
            await self._app(scope, receive, sent)
        except Exception:
            # uvicorn answers in its place, if nothing was sent yet.
            status = 500
            raise
        finally:
            route: Route | None = scope.get(IN_SCOPE)
            is_feed = status == 200 and route is not None and EVENTS in route.media
            # A client that left before the answer began has got none.
            if status and not is_feed:
                path = None if route is None else route.path
                self._metrics.answered(path, scope["method"], status, time.perf_counter() - begun)
