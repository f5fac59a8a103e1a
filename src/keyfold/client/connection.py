"""HTTP connections to a server: one per thread, kept open; errors of the server become exceptions."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from keyfold.errors import STATUS, BadOption, QueryError, Reason
from keyfold.masking import mask
from keyfold.read.values import plain, word

Query = Sequence[tuple[str, Any]]
LOST: Final = (OSError, ValueError, http.client.HTTPException)
"""What is raised when a connection breaks, also in the middle of an answer."""


class Ending:
    """Ends a stream from another thread, also while that waits for the server."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None

    @property
    def asked(self) -> bool:
        """Whether it is to end."""
        return self._asked.is_set()

    def pause(self, seconds: float) -> None:
        """Waits that long, or until it is to end."""
        self._asked.wait(seconds)

    def end_with(self, connection: http.client.HTTPConnection) -> None:
        """Has the stream's connection, which is open, shut down at the end."""
        with self._lock:
            # The connection forgets its socket once an answer says that it is the last one.
            self._sock = connection.sock
        if self.asked:
            self.end()

    def end(self) -> None:
        """Ends it."""
        self._asked.set()
        with self._lock:
            if self._sock is not None:
                # Closing alone does not wake up the thread that reads.
                with suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)


class Connections:
    """Sends requests to one server. Thread-safe."""

    def __init__(self, url: str, timeout: float, token: str | None = None) -> None:
        parts = _address(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._secure, self._host, self._timeout = parts.scheme == "https", parts.netloc, timeout
        self._headers = _authorization(token)
        self._own = threading.local()
        self._all: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()

    def document(self, path: str, query: Query = (), body: Any = None) -> Any:
        """The JSON document at an address; with a body, it is posted."""
        try:
            return self._sent(path, query, body)
        except LOST:
            # The server closes idle connections; all requests can be repeated.
            self._drop()
        try:
            return self._sent(path, query, body)
        except LOST as error:
            self._drop()
            raise self.unreachable(error) from None

    @contextmanager
    def stream(
        self,
        path: str,
        query: Query,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        ending: Ending | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer to be read piece by piece, on a connection of its own, which `ending` can end."""
        connection = self._new(timeout)
        try:
            connection.connect()
            if ending is not None:
                ending.end_with(connection)
            connection.request("GET", _target(path, query), headers={**self._headers, **(headers or {})})
            answer = connection.getresponse()
            if answer.status != 200:
                raise _error(answer.status, answer.read())
            yield answer
        finally:
            self._closed(connection)

    def unreachable(self, error: Exception) -> QueryError:
        """The error of a server that does not answer."""
        what = f"the server does not answer: {error or type(error).__name__}"
        hint = "keyfold serve, or keyfold run, on that machine"
        return QueryError(what, reason="not_ready", where=self.url, hint=hint)

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _sent(self, path: str, query: Query, body: Any) -> Any:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._new(None)
        content = None if body is None else json.dumps(plain(body)).encode()
        headers = self._headers if body is None else {**self._headers, "content-type": "application/json"}
        connection.request("GET" if body is None else "POST", _target(path, query), content, headers)
        answer = connection.getresponse()
        found = answer.read()
        if answer.status != 200:
            raise _error(answer.status, found)
        return json.loads(found)

    def _new(self, timeout: float | None) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=timeout or self._timeout)
        with self._lock:
            self._all.add(connection)
        return connection

    def _drop(self) -> None:
        connection = self._own.__dict__.pop("connection", None)
        if connection is not None:
            self._closed(connection)

    def _closed(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._lock:
            self._all.discard(connection)


def _authorization(token: str | None) -> dict[str, str]:
    """The header with a token, which errors do not show."""
    if not token:
        return {}
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        what, hint = "not a token: it has other characters", "the text that keyfold token create printed"
        raise BadOption(what, where="token, or KEYFOLD_TOKEN", hint=hint)
    return {"authorization": f"Bearer {token}"}


def _address(url: str) -> SplitResult:
    """The parts of the address of a server, which is checked."""
    # Anything may be given by a program without types.
    text = str(url) if "://" in str(url) else f"http://{url}"
    given, hint = None if url is None else mask(text), "http://127.0.0.1:8642"
    try:
        parts = urlsplit(text)
        named = isinstance(url, str) and bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        raise BadOption("not the address of a server", given=given, hint=hint)
    if "@" in parts.netloc:
        what = "the address has a user, and a server takes a token: connect(url, token=...)"
        raise BadOption(what, given=given, hint=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    return parts


def _target(path: str, query: Query) -> str:
    given = [(name, word(plain(value))) for name, value in query if value is not None]
    return f"{path}?{urlencode(given)}" if given else path


def _error(status: int, content: bytes) -> QueryError:
    """The error in a body; of a server that is none of ours, its status."""
    try:
        found = json.loads(content)["error"]
        parts = {name: found[name] for name in ("where", "given", "hint")}
        reason: Reason = next((one for one in STATUS if one == found["reason"]), "not_ready")
        return QueryError(found["what"], reason=reason, **parts)
    except (ValueError, LookupError, TypeError):
        return QueryError(f"the server answered {status}", reason="not_ready", given=content[:200])
