"""Tokens: created, listed, revoked and expired; shown in a header or a cookie; limits; TLS."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold.client import connect, connect_async
from keyfold.engine.polling import wait_until
from keyfold.engine.storage import tokens as stored
from keyfold.errors import BadOption, HomeUnusable, QueryError
from keyfold.read import open_home
from keyfold.server.address import Listening, certificate_of, listen
from keyfold.server.auth.policy import policy_of, rate_of
from keyfold.server.auth.rate_limit import RateLimit
from keyfold.server.auth.sign_in import page
from keyfold.server.serving import Serving
from tests.cli.conftest import Cli, cli
from tests.kafka.certificates import write_certificates
from tests.server.conftest import Answer, Get, client, fill, serving
from tests.server.sse import Reader

__all__ = ["cli"]
ROW = "/api/tables/totals/keys/eu"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill(tmp_path / "home")
    return tmp_path / "home"


def make(home: Path, name: str = "ann", role: str = "reader", **more: Any) -> str:
    return stored.create(home, name, role, more.get("tables"), more.get("lasts"))[1]


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def until(get: Get, status: int, path: str = ROW, **headers: str) -> Answer:
    """The answer once it has a status: the server looks at the tokens twice a second."""
    wait_until(lambda: get(path, **headers).status == status, seconds=20)
    return get(path, **headers)


@contextmanager
def under(home: Path, **options: Any) -> Iterator[Serving]:
    """A server with a policy of its own."""
    with open_home(home) as reader:
        at = listen("127.0.0.1", 0, options.pop("tls", None))
        found = Serving(reader, at, replace(policy_of(at, **options), **CHANGED.get(home, {})))
        found.start()
        try:
            yield found
        finally:
            found.stop()


CHANGED: dict[Path, dict[str, Any]] = {}


def test_a_token_is_shown_once_and_only_its_hash_is_kept(cli: Cli, home: Path) -> None:
    words = ("--tables", "shop.totals,shop.windows", "--expires", "30d", "--home", home, "--json")
    made = cli("token", "create", "ann", *words).json
    assert made["token"].startswith("kf_")
    assert len(made["token"]) > 40
    assert (made["role"], made["tables"]) == ("reader", ["shop.totals", "shop.windows"])
    lasts = datetime.fromisoformat(made["expires"]) - datetime.fromisoformat(made["created"])
    assert lasts == timedelta(days=30)
    file = home / "tokens.json"
    assert made["token"] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (listed,) = cli("token", "list", "--home", home, "--json").json
    assert {**listed, "token": made["token"]} == made
    assert "sha256" not in listed
    revoked = cli("token", "revoke", "ann", "--home", home, "--json").json
    assert (revoked["state"], "ann" in cli("token", "list", "--home", home).out) == ("revoked", True)
    printed = cli("token", "create", "bob", "--home", home)
    assert printed.out.startswith("kf_")
    assert printed.out.strip() not in printed.err


def test_what_is_wrong_with_a_token_is_said(cli: Cli, home: Path) -> None:
    make(home)
    for words, said in (
        (("create", "ann"), "there is a token ann already"),
        (("create", "bob", "--role", "amin"), "did you mean 'admin'?"),
        (("create", "a b"), "a token's name is not usable"),
        (("create", "bob", "--tables", "totals"), "a token's tables are named with their app"),
        (("create", "bob", "--tables", "shop.*"), "a token's tables are named with their app"),
        (("create", "bob", "--expires", "3600000d"), "a token can't last so long"),
        (("create", "bob", "--expires", "9999999999d"), "--expires"),
        (("revoke", "anna"), "did you mean 'ann'?"),
    ):
        found = cli("token", *words, "--home", home)
        assert (found.code, said in found.err) == (2, True), found.err


def test_a_home_without_tokens_is_open_to_this_machine_and_closed_by_the_first(home: Path) -> None:
    with serving(home) as server:
        get = client(server)
        assert get(ROW).status == 200
        text = make(home)
        closed = until(get, 401)
        assert (closed.error["reason"], closed.headers["www-authenticate"]) == ("unauthorized", "Bearer")
        assert get(ROW, **bearer(text)).status == 200
        assert get("/healthz").status == 200
        assert [get(path).status for path in ("/readyz", "/api/openapi.json", "/nothing")] == [401] * 3


def test_a_token_that_reads_no_app_is_told_that_and_not_where_the_home_is(home: Path) -> None:
    text = make(home, tables=("other.totals",))
    with serving(home) as server:
        found = client(server)("/readyz", **bearer(text))
    assert (found.status, found.error["what"]) == (503, "no app that the token may read")
    assert str(home) not in found.body.decode()


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer kf_ä", "Bearer kf_{text}x"])
def test_a_wrong_token_opens_nothing_and_is_not_repeated(home: Path, shown: str) -> None:
    text = make(home)
    with serving(home) as server:
        found = client(server)(ROW, authorization=shown.replace("{text}", text).encode().decode("latin-1"))
    assert found.status == 401
    assert "kf_" not in found.body.decode()


def test_a_revoked_token_opens_nothing_and_ends_its_feeds(home: Path) -> None:
    text, other = make(home), make(home, "bob")
    with serving(home) as server:
        get = client(server)
        assert get(ROW, **bearer(text)).status == 200
        feed = Reader(server, "tables=totals&snapshot=true", **bearer(text))
        feed.until("snapshot")
        stored.revoke(home, "ann")
        assert until(get, 401, **bearer(text)).error["what"] == "the token ann was revoked"
        assert get(ROW, **bearer(other)).status == 200
        # The next comment of an idle feed is not sent any more.
        assert is_cut(feed)
        feed.close()
        stored.revoke(home, "bob")
        # A home that has had tokens does not open by itself.
        assert until(get, 401, **bearer(other)).status == get(ROW).status == 401


def is_cut(feed: Reader) -> bool:
    """Whether a feed is cut before some of its comments have come."""
    try:
        return not all(feed.answer.readline() for _ in range(6))
    except http.client.IncompleteRead:
        return True


def test_an_expired_token_opens_nothing(home: Path) -> None:
    make(home, "bob")
    text = make(home, lasts=timedelta(seconds=-1))
    with serving(home) as server:
        found = client(server)(ROW, **bearer(text))
    assert (found.status, found.error["what"]) == (401, "the token ann has expired")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (None, "{"),
        (None, '{"tokens": []}'),
        (None, '{"tokens": {}}'),
        (None, '{"tokens": ""}'),
        (None, "[" * 100_000),
        (None, None),
        ("role", "amin"),
        ("role", 5),
        ("expires", "2036-01-01T00:00:00"),
        ("created", "now"),
        ("sha256", "ä"),
        ("tables", "shop.totals"),
        ("name", ["ann"]),
    ],
)
def test_damaged_tokens_close_the_home(home: Path, field: str | None, value: Any) -> None:
    text, file = make(home), home / "tokens.json"
    if field is None and value is None:
        file.unlink()
        file.symlink_to(home / "elsewhere")
    elif field is None:
        file.write_text(value)
    else:
        (token,) = json.loads(file.read_text())["tokens"]
        file.write_text(json.dumps({"tokens": [{**token, field: value}]}))
    with pytest.raises(HomeUnusable, match="the tokens can't be read"):
        stored.read(home)
    with serving(home) as server:
        get = client(server)
        assert [get(ROW).status, get("/").status, get("/healthz").status] == [503, 503, 200]
        assert get(ROW, **bearer(text)).status == 503
        # Strangers learn nothing of files.
        assert str(home) not in json.dumps(get(ROW).error)


@pytest.mark.parametrize("for_others", [True, False])
def test_a_server_stays_closed_when_its_tokens_are_removed(home: Path, for_others: bool) -> None:
    text = make(home)
    CHANGED[home] = {"needs_token": for_others}
    with under(home) as server:
        get = client(server)
        assert get(ROW, **bearer(text)).status == 200
        (home / "tokens.json").unlink()
        until(get, 401, **bearer(text))
        assert get(ROW).status == 401


def test_the_first_token_ends_feeds_that_were_open_before_it(home: Path) -> None:
    with serving(home) as server:
        feed = Reader(server, "tables=totals&snapshot=true")
        feed.until("snapshot")
        make(home)
        assert is_cut(feed)
        feed.close()


def test_an_answer_says_that_it_depends_on_who_asks(home: Path) -> None:
    text = make(home)
    with serving(home) as server:
        get = client(server)
        for path in (ROW, f"{ROW}?wait=0s", "/api/tables/totals/rows"):
            found = get(path, **bearer(text))
            assert found.headers["vary"] == "accept, authorization, cookie"
            known = get(path, if_none_match=found.headers["etag"], **bearer(text))
            assert (known.status, known.headers["vary"]) == (304, found.headers["vary"])


# Signing in


def form(get: Get, text: str, to: str = "/", **headers: str) -> Answer:
    body = f"token={text}&to={to}".encode()
    return get("/sign-in", "POST", body, content_type="application/x-www-form-urlencoded", **headers)


def test_a_browser_signs_in_with_a_cookie_that_scripts_and_other_pages_do_not_get(home: Path) -> None:
    text = make(home)
    with serving(home) as server:
        get = client(server)
        asked = get("/apps/shop?x=%22%3E")
        assert asked.status == 401
        assert asked.headers["content-type"].startswith("text/html")
        assert 'value="/apps/shop?x=%22%3E"' in asked.body.decode()
        done = form(get, text, "/apps/shop", origin=server.url)
        assert (done.status, done.headers["location"]) == (303, "/apps/shop")
        cookie = done.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        assert "secure" not in cookie
        sent = {"cookie": f"keyfold_token={text}"}
        assert get(ROW, **sent).status == 200
        assert get(ROW, cookie="keyfold_token=other").status == 401
        gone = get("/sign-out", "POST", b"", origin=server.url, **sent)
        assert "max-age=0" in gone.headers["set-cookie"].lower()


def test_a_request_by_cookie_that_changes_something_needs_an_own_origin(home: Path) -> None:
    text = make(home)
    path, body = "/api/tables/totals/batch-get", {"keys": ["eu"]}
    sent = {"cookie": f"keyfold_token={text}"}
    with serving(home) as server:
        get = client(server)
        assert get(path, "POST", body, **sent).status == 403
        assert get(path, "POST", body, origin="http://evil.example", **sent).status == 403
        assert get(path, "POST", body, origin=server.url, **sent).status == 200
        # A token in a header is not sent by a browser by itself.
        assert get(path, "POST", body, **bearer(text)).status == 200
        assert form(get, text).status == 403
        assert form(get, text, origin="http://evil.example").status == 403


@pytest.mark.parametrize(
    "to", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", ""]
)
def test_signing_in_leads_to_this_server_alone(home: Path, to: str) -> None:
    text = make(home)
    with serving(home) as server:
        assert form(client(server), text, to, origin=server.url).headers["location"] == "/"


def test_a_wrong_token_in_the_form_is_said_and_not_repeated(home: Path) -> None:
    make(home)
    with serving(home) as server:
        found = form(client(server), "kf_wrong", "/apps", origin=server.url)
        assert (found.status, "Not signed in: unknown token." in found.body.decode()) == (401, True)
        assert "kf_wrong" not in found.body.decode()
        assert form(client(server), "x" * 10_000, origin=server.url).status == 413
    assert b"&lt;b&gt;&quot;" in bytes(page("/x", '<b>"').body)


# Names


@contextmanager
def at(host: str) -> Iterator[Listening]:
    """An address as if it were listened on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield Listening(host, bound)


@pytest.mark.parametrize(
    ("host", "allowed", "needs", "names"),
    [
        ("0.0.0.0", (), True, None),
        ("192.168.1.5", (), True, {"192.168.1.5:PORT"}),
        ("192.168.1.5", ("Shop.example",), True, {"192.168.1.5:PORT", "shop.example", "shop.example:*"}),
        ("127.0.0.1", ("shop.example",), True, {"127.0.0.1:PORT", "shop.example"}),
        ("127.0.0.5", (), False, {"127.0.0.5:PORT", "localhost:PORT", "127.0.0.1:PORT", "[::1]:PORT"}),
    ],
)
def test_names_are_those_of_the_address_and_those_that_are_allowed(
    host: str, allowed: tuple[str, ...], needs: bool, names: set[str] | None
) -> None:
    with at(host) as listening:
        found = policy_of(listening, allowed_hosts=allowed)
        shown = found.hosts and {one.decode().replace(str(listening.port), "PORT") for one in found.hosts}
    assert found.needs_token is needs
    assert shown is None if names is None else names <= (shown or set())
    assert "evil.example" not in (shown or ())


@pytest.mark.parametrize("insecure", [True, False])
def test_others_are_served_without_tokens_only_if_that_is_said(insecure: bool) -> None:
    with at("0.0.0.0") as listening:
        assert policy_of(listening, insecure=insecure).needs_token is not insecure


def test_behind_a_proxy_that_does_tls_the_cookie_is_for_tls_alone(cli: Cli, home: Path) -> None:
    refused = cli("serve", "--home", home, "--allowed-host", "shop.example")
    assert (refused.code, "others than this machine could read the home" in refused.err) == (2, True)
    text = make(home)
    with under(home, allowed_hosts=("shop.example",)) as server:
        get = client(server)
        found = form(get, text, host="shop.example", origin="https://shop.example")
        assert (found.status, "; secure" in found.headers["set-cookie"].lower()) == (303, True)
        assert form(get, text, host="shop.example", origin="https://evil.example").status == 403
        # The proxy may have a port of its own.
        there = {"host": "shop.example:8443", "origin": "https://shop.example:8443"}
        assert form(get, text, **there).status == 303
        for other in (
            "evil.example:8443",
            "shop.example.evil.example:8443",
            "shop.example:8443:1",
            "127.0.0.1:1",
        ):
            assert get("/healthz", host=other).status == 403
        assert get("/healthz", host="shop.example:8443", origin="https://shop.example:9000").status == 403
    with under(home, allowed_hosts=("shop.example:8443",)) as server:
        get = client(server)
        seen = [get("/healthz", host=f"shop.example{port}").status for port in (":8443", ":9000", "")]
        assert seen == [200, 403, 403]


# Limits


def test_too_many_requests_are_told_when_to_come_again(home: Path) -> None:
    text, other = make(home), make(home, "bob")
    with under(home, rate=rate_of("3 requests/minute")) as server:
        get = client(server)
        assert [get(ROW, **bearer(text)).status for _ in range(2)] == [200, 429]
        found = get(ROW, **bearer(text))
        assert (found.error["reason"], found.headers["retry-after"]) == ("too_many", "1")
        # Others are not kept out by it, nor by those without a token.
        assert get(ROW, **bearer(other)).status == 200
        assert [get(ROW).status for _ in range(2)] == [401, 429]
        assert [get("/healthz").status for _ in range(5)] == [200] * 5
        assert [get("/sign-in").status for _ in range(2)] == [429] * 2


def test_a_bucket_fills_up_and_forgets_who_has_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("keyfold.server.auth.rate_limit.time.monotonic", lambda: now[0])
    limit = RateLimit(2.0)
    assert [limit.take("a") for _ in range(5)] == [True] * 4 + [False]
    now[0] = 0.5
    assert [limit.take("a"), limit.take("a"), limit.take("b")] == [True, False, True]
    assert all(RateLimit(None).take("a") for _ in range(1_000))


def test_a_rate_is_a_number_of_requests_and_a_time() -> None:
    assert (rate_of(None), rate_of("100 requests/s"), rate_of("60/minute")) == (None, 100.0, 1.0)
    for text in ("100", "0/s", "-1/s", "ten requests/s"):
        with pytest.raises(BadOption, match="not a rate"):
            rate_of(text)


def test_addresses_and_feeds_are_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyfold.server.endpoint.MOST_FEEDS", 2)
    with serving(home) as server:
        get = client(server)
        found = get("/api/apps?x=" + "x" * 60_001)
        assert (found.status, found.error["reason"]) == (414, "too_long")
        feeds = [Reader(server, "tables=totals&snapshot=true") for _ in range(3)]
        assert [one.status for one in feeds] == [200, 200, 429]
        for one in feeds:
            one.close()
        wait_until(lambda: _status(server) == 200, seconds=20)


def _status(server: Serving) -> int:
    one = Reader(server, "tables=totals&snapshot=true")
    one.close()
    return one.status


# TLS


def test_a_home_is_served_over_tls(home: Path, tmp_path: Path) -> None:
    write_certificates(tmp_path / "tls")
    text = make(home)
    tls = certificate_of(str(tmp_path / "tls/server.crt"), str(tmp_path / "tls/server.key"))
    with under(home, tls=tls) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(tmp_path / "tls/ca.pem"))
        connection = http.client.HTTPSConnection(
            server.url.removeprefix("https://"), context=trusted, timeout=20
        )
        connection.request("GET", ROW, headers=bearer(text))
        assert json.load(connection.getresponse())["row"]["n"] == 3
        body = f"token={text}&to=/".encode()
        connection.request("POST", "/sign-in", body, {"origin": server.url})
        answer = connection.getresponse()
        assert "Secure" in str(answer.getheader("set-cookie"))
        connection.close()


def test_a_certificate_that_cannot_be_used_is_said_at_the_start(cli: Cli, home: Path, tmp_path: Path) -> None:
    write_certificates(tmp_path / "tls")
    right, wrong = tmp_path / "tls/server.crt", tmp_path / "tls/client.key"
    for words, said in (
        (("--tls-cert", right), "TLS needs a certificate and its key"),
        (("--tls-cert", right, "--tls-key", wrong), "the certificate can't be used"),
        (("--tls-cert", tmp_path / "none", "--tls-key", wrong), "the certificate can't be used"),
    ):
        found = cli("serve", "--home", home, "--port", "0", *words)
        assert (found.code, said in found.err) == (2, True), found.err


# The client


def test_the_client_shows_its_token_to_the_server_and_to_nobody_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = make(home)
    with serving(home) as server:
        with connect(server.url, token=text) as ours:
            totals = ours.table("totals")
            assert totals.get("eu") is not None
            assert len(totals.rows()) == 3
            assert next(iter(ours.changes("totals", snapshot=True))).rows
            assert text not in repr(ours) + repr(totals)
            with ours.mirror("totals") as mirror:
                assert len(mirror.rows()) == 3
        assert asyncio.run(_apps_of(server.url, text)) == ["shop"]
        monkeypatch.setenv("KEYFOLD_TOKEN", text)
        with connect(server.url) as ours:
            assert ours.apps() == ["shop"]
        with connect(server.url, token="kf_wrong") as ours:
            for read in (ours.apps, lambda: next(iter(ours.changes("totals"))), ours.table("totals").rows):
                with pytest.raises(QueryError, match="unknown token") as found:
                    read()
                assert (found.value.reason, "kf_wrong" in str(found.value)) == ("unauthorized", False)
    with pytest.raises(BadOption, match="not a token") as bad:
        connect(token=f"{text}\r\nx: y")
    assert text not in str(bad.value)


async def _apps_of(url: str, token: str) -> list[str]:
    async with connect_async(url, token=token) as ours:
        return await ours.apps()


def test_the_client_says_that_it_sends_too_much(home: Path) -> None:
    text = make(home)
    with under(home, rate=rate_of("3 requests/minute")) as server, connect(server.url, token=text) as ours:
        ours.apps()
        with pytest.raises(QueryError) as found:
            ours.apps()
    assert found.value.reason == "too_many"
