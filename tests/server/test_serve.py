"""`keyfold serve`: where it listens, what it refuses, how it ends; and what the server imports."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyfold.cli.running.serving import Address, served_beside
from keyfold.engine.storage import tokens
from keyfold.read import open_home
from keyfold.server import address
from keyfold.server.address import PortInUse, checked_host, is_loopback, listen, listen_from
from keyfold.server.serving import Serving
from tests.cli.conftest import SHOP, Cli, cli
from tests.ports import free_port
from tests.server.conftest import Get, client, fill, serving

__all__ = ["cli"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_home_is_served_until_a_signal(home: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-m", "keyfold", "serve", "--home", str(home), "--port", "0"]
    env = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        url = re.fullmatch(rf"keyfold: serving {re.escape(str(home))} on (http://127\.0\.0\.1:\d+)\n", said)
        assert url, said
        with urllib.request.urlopen(f"{url[1]}/api/tables/totals/keys/eu", timeout=20) as found:
            assert json.load(found)["row"]["n"] == 3
        server.send_signal(number)
        out, err = server.communicate(timeout=20)
        assert (server.returncode, out, err) == (0, "", f"keyfold: {number.name}: stopping\n")


def test_a_home_in_which_no_app_has_run_is_served_and_said(tmp_path: Path) -> None:
    home = tmp_path / "none"
    words = [sys.executable, "-m", "keyfold", "serve", "--home", str(home), "--port", "0"]
    env = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=env) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=20)
    assert said == f"keyfold: no app has run in {home} yet; the first that does appears by itself\n"
    assert server.returncode == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_addresses_need_tokens(cli: Cli, home: Path, host: str) -> None:
    found = cli("serve", "--home", home, "--host", host)
    assert found.code == 2
    assert "others than this machine could read the home, which has no tokens" in found.err
    assert f"given: --host {host}" in found.err
    assert "keyfold token create NAME" in found.err


def test_an_empty_address_is_refused(cli: Cli, home: Path) -> None:
    found = cli("serve", "--home", home, "--host", "")
    assert (found.code, "no address to serve on" in found.err) == (2, True)


def test_the_addresses_of_this_machine_are_known() -> None:
    assert [checked_host(host) for host in ("localhost", "[::1]", "::1", "example.org")] == [
        "127.0.0.1",
        "::1",
        "::1",
        "example.org",
    ]
    assert [is_loopback(host) for host in ("127.0.0.1", "127.0.0.5", "::1")] == [True] * 3
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "127.1.example", "192.168.1.5")] == [False] * 4


def test_a_port_in_use_is_said_and_a_free_one_is_offered(cli: Cli, home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = cli("serve", "--home", home, "--port", port)
        assert found.code == 1
        assert f"port {port} is in use by another process" in found.err
        free = re.search(r"--port (\d+), which is free", found.err)
        assert free
        other = listen_from("127.0.0.1", port)
        assert other is not None
        with other.socket:
            assert other.port == int(free[1]) > port
            with pytest.raises(PortInUse):
                listen("127.0.0.1", other.port)


def test_the_address_is_for_a_browser() -> None:
    with listen("127.0.0.1", free_port()).socket as one:
        assert address.Listening("::1", one).url.startswith("http://[::1]:")


def test_clients_that_come_before_the_server_is_up_wait(home: Path) -> None:
    with open_home(home) as reader:
        listening = listen("127.0.0.1", 0)
        server = Serving(reader, listening)
        with socket.create_connection(("127.0.0.1", listening.port), timeout=20) as early:
            early.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost:{listening.port}\r\n\r\n".encode())
            server.start()
            assert early.recv(100).startswith(b"HTTP/1.1 200")
        server.stop()
        assert server.ended(20)


def test_a_server_that_was_stopped_is_gone(home: Path) -> None:
    with serving(home) as server:
        get: Get = client(server)
        assert get("/healthz").status == 200
    with pytest.raises(OSError, match="refused"):
        get("/healthz")
    assert server.error is None


def test_a_server_may_be_stopped_at_once(home: Path) -> None:
    with serving(home) as server:
        pass
    assert server.ended(20)


def test_the_server_imports_no_spark_and_the_command_line_no_server(home: Path) -> None:
    script = f"""
import importlib, json, pkgutil, sys
import keyfold.cli.registry
early = [name for name in ("uvicorn", "starlette", "anyio") if name in sys.modules]
import keyfold.server
for module in pkgutil.walk_packages(keyfold.server.__path__, "keyfold.server."):
    importlib.import_module(module.name)
heavy = ("pyspark", "py4j", "pandas", "numpy", "pyarrow")
imported = [name for name in heavy if name in sys.modules]
from tests.server.conftest import client, serving
from pathlib import Path
with serving(Path({str(home)!r})) as server:
    for path in ("rows", "keys/eu", "keys/eu/history", "batches", "side/rejected", "rows?format=arrow"):
        assert client(server)("/api/tables/totals/" + path).status == 200
print(json.dumps([early, imported, [name for name in ("pyspark", "py4j") if name in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], [], []]


def said(asked: Address | None, home: Path) -> tuple[str | None, int | None]:
    """What a run says, and the status of an answer meanwhile."""
    with served_beside(asked, home, {}) as words:
        url = re.search(r"http://\S+?(?=;|$)", words or "")
        if url is None:
            return words, None
        with urllib.request.urlopen(f"{url[0]}/api/tables/totals/keys/eu", timeout=20) as found:
            return words, found.status


def test_a_run_takes_the_next_port_if_the_default_one_is_taken(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr(address, "PORT", port)
    assert said(Address(), home) == (f"serving on http://127.0.0.1:{port}", 200)
    with listen("127.0.0.1", port).socket:
        words, status = said(Address(), home)
        assert status == 200
        assert re.fullmatch(
            rf"serving on http://127\.0\.0\.1:\d+; port {port} is in use by another process", words or ""
        )
        with pytest.raises(PortInUse, match=f"port {port} is in use"):
            said(Address(port=port), home)
    assert said(None, home) == (None, None)


def test_a_run_goes_on_if_no_port_is_free(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "PORT", 65_535)
    with listen("127.0.0.1", 65_535).socket:
        words, _ = said(Address(), home)
    assert words is not None
    assert words.startswith("not serving: port 65535 and those after it are in use")


def test_a_run_refuses_an_address_before_java_is_started(cli: Cli, tmp_path: Path) -> None:
    app = tmp_path / "shop.py"
    app.write_text(SHOP)
    found = cli("run", app, "--home", tmp_path / "home", "--host", "0.0.0.0")
    assert (found.code, "starting shop" in found.err) == (2, False)
    assert "the home, which has no tokens" in found.err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = cli("run", app, "--home", tmp_path / "home", "--drain", "--port", port)
        assert (found.code, f"port {port} is in use" in found.err) == (1, True)


def test_local_files_of_a_home_elsewhere_are_served(home: Path) -> None:
    with served_beside(Address(port=0), "s3a://bucket/home", {"local": str(home)}) as words:
        url = (words or "").removeprefix("serving on ")
        with urllib.request.urlopen(f"{url}/api/tables/totals/keys/eu", timeout=20) as found:
            assert json.load(found)["row"]["n"] == 3


@contextmanager
def serving_others(home: Path, *words: str) -> Iterator[tuple[str, list[str]]]:
    """`keyfold serve` on all addresses of this machine: its port, and what it says before."""
    command = [sys.executable, "-m", "keyfold", "serve", "--home", str(home), "--host", "0.0.0.0"]
    env = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(
        [*command, "--port", "0", *words], stderr=subprocess.PIPE, text=True, env=env
    ) as run:
        assert run.stderr is not None
        said = [run.stderr.readline()]
        while " on http" not in said[-1]:
            assert said[-1], said
            said.append(run.stderr.readline())
        try:
            yield said[-1].strip().rpartition(":")[2], said
        finally:
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=20)


def status_of(port: str, **headers: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/tables/totals/keys/eu", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as found:
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_others_are_served_with_a_token_and_warned_of_plain_text(tmp_path: Path) -> None:
    fill(tmp_path / "home")
    _, text = tokens.create(tmp_path / "home", "ann", "reader", None, None)
    with serving_others(tmp_path / "home") as (port, said):
        assert said[0].startswith("keyfold: warning: tokens and rows are sent as plain text")
        assert [status_of(port), status_of(port, Authorization=f"Bearer {text}")] == [401, 200]


def test_others_are_served_without_tokens_if_that_is_said_and_warned_of(tmp_path: Path) -> None:
    fill(tmp_path / "home")
    with serving_others(tmp_path / "home", "--insecure", "--allowed-host", "shop.example") as (port, said):
        assert said[0].startswith("keyfold: warning: --insecure: everybody who reaches 0.0.0.0")
        assert [status_of(port), status_of(port, Host="shop.example"), status_of(port, Host="evil")] == [
            200,
            200,
            403,
        ]
