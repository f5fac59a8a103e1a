"""What connections may take of the server before anybody has shown a token."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.polling import wait_until
from keyfold.read import open_home
from keyfold.server.address import listen
from keyfold.server.auth.guard import HEADERS
from keyfold.server.connection.limits import Limits
from keyfold.server.serving import Serving
from tests.server.conftest import Answer, client


@contextmanager
def limited(home: Path, **limits: Any) -> Iterator[Serving]:
    with open_home(home) as reader:
        found = Serving(reader, listen("127.0.0.1", 0), limits=Limits(**limits))
        found.start()
        try:
            yield found
        finally:
            found.stop()


def connected(server: Serving, sent: bytes = b"") -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=20)
    made.sendall(sent.replace(b"HOST", f"{host}:{port}".encode()))
    return made


def answer(connection: socket.socket) -> Answer | None:
    """All that comes until the server closes; None if that is nothing."""
    found = b""
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    if not found:
        return None
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(int(first.split(" ")[1]), headers, body)


BEGUN = b"GET /healthz HTTP/1.1\r\nHost: HOST\r\nX: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        BEGUN,
        b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n",
        b"GET /",
        WHOLE + BEGUN,
        b"POST /nothing HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
    ],
)
def test_headers_without_an_end_are_refused(home: Path, sent: bytes) -> None:
    line = b"x" * 99 if sent.endswith((b"/", b" ")) else b"X: " + b"x" * 94 + b"\r\n"
    with limited(home) as server, connected(server, sent) as connection:
        try:
            for _ in range(80_000):
                connection.sendall(line * 10)
        except OSError:
            pass
        else:
            pytest.fail("80 MB of headers were taken")
        assert client(server)("/healthz").status == 200


def test_long_headers_are_an_error_in_the_one_body_that_is_protected(home: Path) -> None:
    with limited(home, head_bytes=1_000) as server, connected(server, BEGUN + b"x" * 2_000) as connection:
        found = answer(connection)
    assert found is not None
    assert (found.status, found.error["reason"]) == (431, "headers_too_long")
    assert found.headers.items() >= {name.decode(): value.decode() for name, value in HEADERS}.items()
    assert found.headers["connection"] == "close"


def test_addresses_headers_and_bodies_that_are_long_enough_are_not_refused(home: Path) -> None:
    with limited(home) as server:
        get = client(server)
        assert get("/healthz?x=" + "x" * 59_000, x="x" * 60_000).status == 400
        assert get("/healthz?x=" + "x" * 61_000, x="x" * 60_000).error["reason"] == "too_long"
        body = b" " * 900_000 + json.dumps({"keys": ["eu"]}).encode()
        assert get("/api/tables/totals/batch-get", "POST", body).status == 200
        chunked = b"POST /api/tables/totals/batch-get HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n"
        parts = b"1\r\n \r\n" * 100_000 + b"e\r\n" + b'{"keys":["eu"]' + b"\r\n1\r\n}\r\n0\r\n\r\n"
        with connected(server, chunked + b"Transfer-Encoding: chunked\r\n\r\n" + parts) as connection:
            found = answer(connection)
            assert found is not None
            assert found.status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"GET /heal", 408),
        (BEGUN, 408),
        (b"GET /healthz HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\nx", 200),
        (b"POST /nothing HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\nx", 404),
        (b"POST /api/tables/totals/batch-get HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\nx", None),
    ],
)
def test_half_a_request_is_not_waited_for(home: Path, sent: bytes, status: int | None) -> None:
    limits = {"head_seconds": 0.2, "request_seconds": 0.2}
    with limited(home, **limits) as server, connected(server, sent) as connection:
        found = answer(connection)
    assert (None if found is None else found.status) == status


@pytest.mark.parametrize("path", ["/api/tables/totals/batch-get", "/sign-in"])
@pytest.mark.parametrize(
    "body", [b"Content-Length: 9\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"]
)
def test_half_a_body_is_not_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes
) -> None:
    monkeypatch.setattr("keyfold.server.connection.body.SECONDS", 0.2)
    head = f"POST {path} HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\n".encode()
    with limited(home) as server, connected(server, head + body) as connection:
        found = answer(connection)
    assert found is not None
    assert (found.status, found.error["reason"]) == (408, "too_slow")
    assert found.headers.items() >= {name.decode(): value.decode() for name, value in HEADERS}.items()


def test_a_connection_that_is_used_stays(home: Path) -> None:
    limits = {"head_seconds": 0.2, "request_seconds": 0.2}
    with limited(home, **limits) as server, connected(server, WHOLE) as used, connected(server) as idle:
        assert used.recv(65_536).startswith(b"HTTP/1.1 200")
        # The other one is closed, as it has no request.
        assert answer(idle) is None
        used.sendall(WHOLE.replace(b"HOST", server.url.removeprefix("http://").encode()))
        assert used.recv(65_536).startswith(b"HTTP/1.1 200")


def test_too_many_connections_take_the_place_of_those_that_wait(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "keyfold.server"), limited(home, connections=3) as server:
        get = client(server)
        with ExitStack() as held:
            waiting = [held.enter_context(connected(server, BEGUN)) for _ in range(10)]
            assert get("/healthz").status == 200
            assert [answer(one) for one in waiting[:7]] == [None] * 7
        assert len([one for one in caplog.messages if "too many connections" in one]) == 1


def test_without_one_that_waits_a_connection_too_many_is_told_so(home: Path) -> None:
    feed = b"GET /api/changes?tables=totals HTTP/1.1\r\nHost: HOST\r\n\r\n"
    with limited(home, connections=1) as server:
        with connected(server, feed) as held:
            assert held.recv(12) == b"HTTP/1.1 200"
            found = client(server)("/healthz")
            assert (found.status, found.error["what"]) == (503, "too many connections")
            assert found.headers["retry-after"] == "1"
            assert found.headers["x-content-type-options"] == "nosniff"
        wait_until(lambda: client(server)("/healthz").status == 200, seconds=20)


def test_descriptors_are_kept_for_files(home: Path) -> None:
    with limited(home, reserve=Limits(reserve=0).descriptors) as server:
        assert client(server)("/healthz").status == 503
    assert Limits().descriptors < Limits(reserve=0).descriptors
