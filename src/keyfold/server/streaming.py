"""Responses that are sent piece by piece: rows until their end, and events until the client leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from keyfold.server import stepping
from keyfold.server.answers import Streamed
from keyfold.server.metrics.requests import ServerMetrics

_LOG: Final = logging.getLogger("keyfold.server")
# A reader that takes nothing for this long would hold a snapshot of the views, and with it SQLite's log.
SLOWEST_SECONDS: Final = 30.0


def streamed(found: Streamed, headers: Mapping[str, str], metrics: ServerMetrics) -> Response:
    """The response that sends an answer."""
    more = {**headers, **found.headers}
    if isinstance(found.pieces, AsyncIterator):
        return Events(found.media, found.pieces, more, metrics)
    return Pieces(found.media, found.pieces, more)


class Pieces(Response):
    """Sends an answer piece by piece, until the client is gone or takes nothing any more."""

    def __init__(self, media: str, pieces: Iterator[bytes], headers: Mapping[str, str]) -> None:
        self.status_code, self.media_type, self.background = 200, media, None
        self._pieces = pieces
        # The first piece is read now, so that an error in it becomes an error's body.
        self._first: Any = next(pieces, stepping.END)
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            piece = self._first
            while piece is not stepping.END and not await request.is_disconnected():
                await _send_piece(send, piece)
                piece = await stepping.step(self._pieces)
            if piece is stepping.END:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            # The connection is closed before the answer's end, so that the client knows.
            _LOG.info("a client took nothing for %g s", SLOWEST_SECONDS)
        except Exception as error:
            _LOG.warning("an answer ended before its end: %s: %s", type(error).__name__, error)
            raise
        finally:
            await stepping.close(self._pieces)


class Events(Response):
    """Sends events as they come, until the client is gone or takes nothing any more."""

    def __init__(
        self, media: str, pieces: AsyncIterator[bytes], headers: Mapping[str, str], metrics: ServerMetrics
    ) -> None:
        self.status_code, self.media_type, self.background = 200, media, None
        self._pieces: Any = pieces
        self._metrics = metrics
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.feed_began()
        reason = "left"
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            reason = await self._follow(receive, send)
        finally:
            self._metrics.feed_ended(reason)

    async def _follow(self, receive: Receive, send: Send) -> str:
        """Sends until the feed or its reader ends it; the reason."""
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            return sending.result() if sending.done() else "left"
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_all(self, send: Send) -> str:
        """Sends all events; why they ended."""
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    await _send_piece(send, piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return "closed"
        except TimeoutError:
            _LOG.info("a reader of changes took nothing for %g s", SLOWEST_SECONDS)
            return "slow"
        except Exception as error:
            _LOG.warning("a change feed has ended: %s: %s", type(error).__name__, error)
            return "failed"


async def _gone(receive: Receive) -> None:
    """Returns once the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_piece(send: Send, piece: bytes) -> None:
    message = {"type": "http.response.body", "body": piece, "more_body": True}
    await asyncio.wait_for(send(message), SLOWEST_SECONDS)
