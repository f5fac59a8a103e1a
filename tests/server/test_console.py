"""How the console's page and files are served, with files that stand for built ones."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.server.console import static
from tests.server.conftest import Get, client, serving

PAGE = b'<!doctype html><script type="module" src="/assets/index-1.js"></script>'
SCRIPT = b"console.log(1)\n" * 50


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built console."""
    directory = tmp_path / "console"
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_bytes(PAGE)
    (directory / "assets" / "index-1.js").write_bytes(SCRIPT)
    (directory / "assets" / "mark-1.svg").write_bytes(b"<svg/>")
    (tmp_path / "secret").write_text("not served")
    monkeypatch.setattr(static, "BUILT", directory)
    return directory


@pytest.fixture
def get(built: Path, home: Path) -> Iterator[Get]:
    with serving(home) as server:
        yield client(server)


@pytest.mark.parametrize(
    "path", ["/", "/apps", "/apps/shop", "/apps/shop/tables/totals/keys/%2e/ä%2Fb?n.gt=1"]
)
def test_every_address_of_the_console_is_its_page(get: Get, path: str) -> None:
    found = get(path.replace("ä", "%C3%A4"))
    assert (found.status, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert found.body == PAGE
    assert found.headers["cache-control"] == "private, no-cache"


def test_only_files_of_this_server_run_in_the_page(get: Get) -> None:
    policy = dict(part.split(" ", 1) for part in get("/").headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert {policy[name] for name in ("object-src", "form-action", "frame-ancestors", "base-uri")} == {
        "'none'"
    }


def test_files_are_kept_for_ever_since_their_names_have_a_hash(get: Get) -> None:
    found = get("/assets/index-1.js")
    assert (found.status, found.body) == (200, SCRIPT)
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert get("/assets/mark-1.svg").headers["content-type"] == "image/svg+xml"


def test_a_client_that_takes_gzip_gets_it(get: Get) -> None:
    found = get("/assets/index-1.js", accept_encoding="br, gzip")
    assert (found.headers["content-encoding"], found.headers["vary"]) == ("gzip", "accept-encoding")
    assert len(found.body) < len(SCRIPT)
    assert gzip.decompress(found.body) == SCRIPT


def test_a_head_has_the_headers_alone(get: Get) -> None:
    found = get("/assets/index-1.js", "HEAD")
    assert (found.status, found.headers["content-length"], found.body) == (200, str(len(SCRIPT)), b"")


@pytest.mark.parametrize(
    "path",
    ["/assets/none.js", "/assets/../../secret", "/assets/%2e%2e/%2e%2e/secret", "/assets/", "/index.html"],
)
def test_nothing_else_is_a_file(get: Get, path: str) -> None:
    found = get(path)
    assert (found.status, found.error["reason"]) == (404, "not_found")


def test_the_page_is_no_answer_to_other_methods_and_hosts(get: Get) -> None:
    assert get("/", "POST", {}).status == 404
    assert get("/", host="evil.example").status == 403


def test_addresses_of_the_api_stay_json(get: Get) -> None:
    assert get("/api/apps").json["apps"]
    assert get("/api/nothing").error["reason"] == "not_found"
    assert get("/appsx").error["reason"] == "not_found"


def test_a_checkout_without_a_built_console_says_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(static, "BUILT", tmp_path / "none")
    with serving(home) as server:
        found = client(server)("/apps/shop")
    assert (found.status, found.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert b"make console" in found.body
    assert b"<style" not in found.body
