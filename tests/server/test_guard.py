"""Who may ask: names of this machine, pages of this origin; and headers that protect answers."""

from __future__ import annotations

import socket

import pytest

from keyfold.errors import BadOption
from keyfold.server.auth.guard import HEADERS
from keyfold.server.auth.policy import hosts_of
from keyfold.server.serving import Serving
from tests.server.conftest import Get


@pytest.mark.parametrize("path", ["/healthz", "/api/tables/totals/keys/eu", "/nothing"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}"]
)
def test_another_name_is_refused(get: Get, server: Serving, path: str, host: str) -> None:
    port = server.url.rpartition(":")[2]
    found = get(path, host=host.replace("{port}", port))
    assert (found.status, found.error["reason"]) == (403, "forbidden")
    assert found.error["given"] == host.replace("{port}", port)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_the_names_of_this_machine_are_accepted(get: Get, server: Serving, name: str) -> None:
    assert get("/healthz", host=f"{name}:{server.url.rpartition(':')[2]}").status == 200


@pytest.mark.parametrize("hosts", [b"", b"Host: localhost:%d\r\nHost: evil.example\r\n"])
def test_a_request_has_one_host(server: Serving, hosts: bytes) -> None:
    port = int(server.url.rpartition(":")[2])
    head = hosts % port if b"%d" in hosts else hosts
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n" + head + b"Connection: close\r\n\r\n")
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert answer.split(b" ")[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1"]
)
def test_pages_of_other_origins_are_refused(get: Get, server: Serving, origin: str) -> None:
    port = server.url.rpartition(":")[2]
    for method, path in (("GET", "/healthz"), ("POST", "/api/tables/totals/batch-get")):
        found = get(path, method, {"keys": []} if method == "POST" else None, origin=origin.format(port=port))
        assert (found.status, found.error["reason"]) == (403, "forbidden")


def test_a_page_of_the_server_itself_may_read(get: Get, server: Serving) -> None:
    assert get("/healthz", origin=server.url).status == 200


@pytest.mark.parametrize(
    "path", ["/healthz", "/api/tables/totals/keys/eu", "/nothing", "/api/tables/totals/rows"]
)
def test_every_answer_has_headers_that_protect_it(get: Get, path: str) -> None:
    found = get(path)
    assert {name.encode(): value.encode() for name, value in found.headers.items()}.items() >= dict(
        HEADERS
    ).items()
    assert "server" not in found.headers
    assert not any(name.startswith("access-control") for name in found.headers)


def test_a_failure_while_access_is_decided_is_an_error_in_the_one_body(
    get: Get, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("keyfold.server.auth.credentials.access_of", fail)
    found = get("/api/tables/totals/keys/eu")
    assert (found.status, found.error["reason"], b"secret" in found.body) == (500, "failed", False)
    assert {name.encode(): value.encode() for name, value in found.headers.items()}.items() >= dict(
        HEADERS
    ).items()
    assert "a request failed" in caplog.messages


def test_port_80_needs_no_number() -> None:
    assert b"localhost" in hosts_of("127.0.0.1", 80)
    assert b"localhost" not in hosts_of("127.0.0.1", 8642)
    assert b"[::2]:8642" in hosts_of("::2", 8642)


@pytest.mark.parametrize(
    "name", ["*", "*.shop.example", "http://x", "", " ", "x/y", "a b", "x:y", "::1", "a,b"]
)
def test_what_no_host_header_has_is_no_allowed_host(name: str) -> None:
    with pytest.raises(BadOption, match="not the name of a host") as found:
        hosts_of("127.0.0.1", 8642, [name])
    assert "shop.example" in str(found.value)


@pytest.mark.parametrize("name", ["Shop.example", "shop_1:8443", "[2001:db8::1]", "[::1]:80", "10.0.0.1"])
def test_names_with_and_without_a_port_are_allowed(name: str) -> None:
    assert name.lower().encode() in hosts_of("127.0.0.1", 8642, [name])
