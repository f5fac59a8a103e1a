"""`BoundedProtocol`: uvicorn's protocol with an end to headers, to waiting, and to the number of connections.

None of this needs a token, so that no request may take much of the server before its headers are read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from keyfold.errors import QueryError
from keyfold.server.auth.guard import HEADERS
from keyfold.server.connection.limits import Limits
from keyfold.server.endpoint import error_response

_LOG: Final = logging.getLogger("keyfold.server")
_SLICE: Final = 16_384
"""As how much the parser gets at once, so that the bytes of headers are known about so exactly."""
_LINGER_SECONDS: Final = 1
_LINGER_BYTES: Final = 1 << 20
"""How long a refused client has to read why, and what it may send meanwhile, which nobody reads."""
_LOG_SECONDS: Final = 60


class _Bounds:
    """What the connections of a server share."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: dict[BoundedProtocol, None] = {}
        """The connections without a whole request, the one that has been so for longest first."""
        self._logged = float("-inf")

    def full(self, connections: int, descriptor: int) -> bool:
        """Whether another connection would be one too many; descriptors are given from the lowest on."""
        return connections > self.limits.connections or descriptor >= self.limits.descriptors

    def log(self, connections: int) -> None:
        """Says that it is full, now and then."""
        if (now := time.monotonic()) - self._logged >= _LOG_SECONDS:
            self._logged = now
            what = "too many connections (%d): those that wait for longest without a request are closed"
            _LOG.warning(f"{what}; ulimit -n allows more, a proxy in front holds them", connections)


def bounded(limits: Limits) -> type[BoundedProtocol]:
    """The protocol of one server."""

    class Bounded(BoundedProtocol):
        bounds = _Bounds(limits)

    return Bounded


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    bounds: _Bounds

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = self.bounds.limits
        self._at: Literal["head", "rest", "end"] = "head"
        self._requests = self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timed: object = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection in, if need be in the place of one that waits."""
        super().connection_made(transport)
        descriptor = transport.get_extra_info("socket").fileno()
        if self.bounds.full(len(self.connections), descriptor):
            self.bounds.log(len(self.connections))
            oldest = next(iter(self.bounds.waiting), None)
            if oldest is None:
                what, hint = "too many connections", "come again later"
                self._refuse(QueryError(what, reason="not_ready", hint=hint))
                return
            oldest.give_up()
        self.bounds.waiting[self] = None
        self._watch()

    def give_up(self) -> None:
        """Ends the connection at once."""
        self.bounds.waiting.pop(self, None)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self.bounds.waiting.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads what has come, as long as it is not too long."""
        for start in range(0, len(data), _SLICE):
            if self._refused:
                self._head_bytes += len(data)
                if self._head_bytes > _LINGER_BYTES:
                    self.transport.abort()
            if self._refused or self.transport.is_closing():
                return
            part = data[start : start + _SLICE] if len(data) > _SLICE else data
            if self._at == "end":
                self._at, self._head_bytes = "head", 0
            self._head_bytes += len(part)
            super().data_received(part)
            if self._head_bytes > self._limits.head_bytes:
                given, hint = f"more than {self._limits.head_bytes:,} bytes", "fewer or shorter headers"
                what = "the headers are too long"
                self._refuse(QueryError(what, reason="headers_too_long", given=given, hint=hint))
                return
        if not self.transport.is_closing():
            self._watch()

    def on_message_begin(self) -> None:
        """Called where a request begins, which may be right behind another one."""
        self._at = "head"
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Called when the headers are whole."""
        self._at = "rest"
        self.bounds.waiting.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called for each part of a body; what is before, between and behind them is headers."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called when a request is whole."""
        self._at, self._head_bytes = "end", 0
        self._requests += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called when an answer is sent."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.bounds.waiting[self] = None

    def _watch(self) -> None:
        """Has a timer for the part of a request that is expected; between requests uvicorn has one."""
        wanted = None if self._at == "end" else (self._requests, self._at)
        if wanted != self._timed:
            self._stop_timer()
            self._timed = wanted
            if wanted is not None:
                self._start_timer()

    def _start_timer(self) -> None:
        head = self._at == "head"
        seconds = self._limits.head_seconds if head else self._limits.request_seconds
        self._timer = self.loop.call_later(seconds, self._expired)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timed = None

    def _expired(self) -> None:
        if self.flow.read_paused:
            # It is the server that does not read on.
            self._start_timer()
        elif self._at == "head" and self._head_bytes:
            given = f"{self._limits.head_seconds:g} seconds"
            self._refuse(QueryError("the headers did not come in time", reason="too_slow", given=given))
        else:
            self.give_up()

    def _refuse(self, error: QueryError) -> None:
        """Answers, unless another answer is under way, and closes."""
        self._refused = True
        self.bounds.waiting.pop(self, None)
        self._stop_timer()
        self._unset_keepalive_if_required()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        response = error_response(error, headers={"connection": "close"})
        headers = (*self.server_state.default_headers, *response.raw_headers, *HEADERS)
        lines = b"".join(b"%s: %s\r\n" % one for one in headers)
        self.transport.write(STATUS_LINE[response.status_code] + lines + b"\r\n" + bytes(response.body))
        # To close while the client still sends would take the answer from it.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)
