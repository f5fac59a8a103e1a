"""`keyfold.client`: the verbs of a local read over HTTP, its errors, and changes after a lost connection."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold.client import Changes, Client, connect
from keyfold.client.connection import Connections
from keyfold.errors import BadOption, QueryError
from keyfold.read import open_home
from keyfold.read.values import plain
from keyfold.server.address import listen
from keyfold.server.serving import Serving
from tests.cli.conftest import AT
from tests.ports import free_port
from tests.server.conftest import serving
from tests.server.test_changes import A, App, B, app

__all__ = ["app"]


@pytest.fixture
def remote(server: Serving) -> Iterator[Client]:
    with connect(server.url) as found:
        yield found


@pytest.mark.parametrize(
    "reading",
    [
        {},
        {"where": "n > 1", "order_by": "n desc"},
        {"where": {"region": "eu"}},
        {"where": {"region": ["eu", "us"], "n": 2}},
        {"where": {"revenue": None}},
        {"order_by": ["n", "region desc"], "limit": 2},
    ],
)
def test_rows_are_those_of_a_local_read(remote: Client, home: Path, reading: dict[str, Any]) -> None:
    with open_home(home) as reader:
        expected = plain(reader.table("totals").rows(**reading))
    totals = remote.table("totals")
    assert totals.rows(**reading) == expected != []
    assert list(totals.scan(**reading)) == expected
    assert remote.table("shop.totals").page(**{"limit": 100, **reading}).rows == expected


def test_rows_of_all_types_keep_their_json(remote: Client, home: Path) -> None:
    with open_home(home) as reader:
        assert remote.table("kinds").rows() == plain(reader.table("kinds").rows())


def test_keys_are_given_as_to_a_local_read(remote: Client) -> None:
    totals, pairs = remote.table("totals"), remote.table("pairs")
    eu = totals.get("eu")
    assert eu is not None
    assert eu["n"] == 3
    assert (
        totals.get(region="eu") == totals.get({"region": "eu"}) == totals.get("eu", at_least=1, wait=1) == eu
    )
    assert totals.get("none") is None
    assert totals.get_many(["us", "none", "eu"])[1:] == [None, eu]
    assert (pairs.get(-5, 1.5) or {})["v"] == "minus"
    assert pairs.get_many([(-5, 1.5)]) == [pairs.get(a=-5, b=1.5)]
    window = remote.table("windows").get("eu", AT + timedelta(minutes=2), AT + timedelta(minutes=3))
    assert (window or {})["n"] == 2
    with pytest.raises(QueryError, match="both by position and by name"):
        totals.get("eu", region="eu")


def test_pages_position_and_schema(remote: Client) -> None:
    totals = remote.table("totals")
    first = totals.page(limit=2)
    assert [row["region"] for row in totals.page(limit=2, cursor=first.next).rows] == ["ä[b]"]
    position = totals.position()
    assert position is not None
    assert (position.batch, position.watermark, position.age > 0) == (1, "2026-01-01T12:00:00Z", True)
    assert totals.schema == {"keys": {"region": "string"}, "columns": {"n": "bigint", "revenue": "double"}}
    assert remote.table("windows").rows(since=AT + timedelta(minutes=4)) == remote.table("windows").rows(
        "n = 4"
    )
    assert (remote.apps(), remote.status("shop")["state"]) == (["shop"], "stopped")


@pytest.mark.parametrize(
    ("read", "reason", "what"),
    [
        (lambda r: r.table("total").rows(), "not_found", "no table total in app shop"),
        (lambda r: r.table("shap.totals").get("eu"), "not_found", "no app shap in"),
        (lambda r: r.table("totals").rows("m > 1"), "bad_request", "unknown column 'm'"),
        (lambda r: r.table("totals").get("eu", 7), "bad_request", "the key has 1 part, 2 given"),
        (lambda r: r.table("totals").get("eu", at_least=9), "behind_bound", "behind batch 9"),
        (lambda r: r.table("totals").rows(max_age="1s"), "too_old", "the view is"),
        (lambda r: next(r.changes("total")), "not_found", "no table total in app shop"),
    ],
)
def test_errors_are_those_of_a_local_read(remote: Client, read: Any, reason: str, what: str) -> None:
    with pytest.raises(QueryError, match=what) as caught:
        read(remote)
    assert caught.value.reason == reason
    assert caught.value.hint


def test_a_server_that_is_not_there_is_said() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with connect(url) as remote:
        for read in (remote.apps, remote.table("totals").rows, lambda: next(remote.changes("a", patience=0))):
            with pytest.raises(QueryError, match="the server does not answer") as caught:
                read()
            assert (caught.value.reason, caught.value.where) == ("not_ready", url)
    for wrong in ("ftp://x", "http://", "http://localhost:1/api"):
        with pytest.raises(BadOption, match="not the address of a server"):
            connect(wrong)


@pytest.mark.parametrize(
    "url", [None, 8642, "", "http://localhost:port", "http://localhost:99999", "http://[::1", "localhost:0"]
)
def test_an_address_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(BadOption, match="not the address of a server"):
        connect(url)


@pytest.mark.parametrize("url", ["http://me:pa55@127.0.0.1:8642", "me:pa55@127.0.0.1:8642"])
def test_a_password_in_an_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(BadOption, match="the address has a user") as caught:
        connect(url)
    assert "pa55" not in str(caught.value)
    assert (caught.value.given, caught.value.hint) == (
        "http://me:***@127.0.0.1:8642",
        "http://127.0.0.1:8642",
    )
    with pytest.raises(BadOption) as caught:
        connect("ftp://me:pa55@127.0.0.1")
    assert "pa55" not in str(caught.value)


def test_a_connection_that_the_server_has_closed_is_opened_again(home: Path) -> None:
    port = free_port()
    with connect(f"127.0.0.1:{port}") as remote:
        for _ in range(2):
            with open_home(home) as reader:
                server = Serving(reader, listen("127.0.0.1", port))
                server.start()
                assert remote.apps() == ["shop"]
                server.stop()


def test_threads_share_a_client(remote: Client) -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.extend(remote.table("totals").get("eu") for _ in range(20)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row["n"] for row in found] == [3] * 160


def test_changes_go_on_when_the_server_is_started_again(app: App) -> None:
    home, port = app.home.path.parent, free_port()
    app.commit(A, ("upsert", "x", 1))
    with connect(f"http://127.0.0.1:{port}") as remote:
        found = remote.changes("a", "b", snapshot=True)
        for round in range(3):
            with open_home(home) as reader:
                server = Serving(reader, listen("127.0.0.1", port))
                server.start()
                if round == 0:
                    assert next(found) == Changes(
                        "shop", "a", 0, "shop.a@1e1", snapshot=True, rows=app.home_rows("a")
                    )
                    assert next(found).snapshot
                one, position = next_of(found, app, round)
                server.stop()
            app.commit(B, ("upsert", "missed", round))
            assert (one.table, one.snapshot) == ("a", False)
            assert one.changes == [{"op": "upsert", "key": {"k": "x"}, "after": {"k": "x", "n": 10 + round}}]
        # Another client goes on behind what this one has seen.
    with open_home(home) as reader, connect(f"http://127.0.0.1:{port}") as remote:
        server = Serving(reader, listen("127.0.0.1", port))
        server.start()
        last = next(remote.changes("a", "b", position=position))
        assert (last.table, last.changes[0]["after"]) == ("b", {"k": "missed", "n": 2})
        server.stop()


def next_of(found: Iterator[Changes], app: App, round: int) -> tuple[Changes, str]:
    """The next changes of a, and the position behind all; those of b, which came meanwhile, come too."""
    app.commit(A, ("upsert", "x", 10 + round))
    seen = [next(found)]
    while {one.table for one in seen} != ({"a", "b"} if round else {"a"}):
        seen.append(next(found))
    missed = [one.changes[0]["after"]["n"] for one in seen if one.table == "b"]
    assert missed == ([round - 1] if round else [])
    return next(one for one in seen if one.table == "a"), seen[-1].position


def test_a_position_of_a_read_is_one_to_read_after_and_to_follow_from(app: App) -> None:
    app.home.table("a").storage.put("checkpoint/offsets/0", b'v1\n{}\n{"orders":{"0":5}}')
    app.commit(A, ("upsert", "x", 1))
    with serving(app.home.path.parent) as server, connect(server.url) as remote:
        a = remote.table("a")
        at = a.position()
        assert at is not None
        assert at.position == "shop.a@1"
        assert [row["n"] for row in a.rows(after=at.position)] == [1]
        assert a.get("x", after="orders/0@4") == a.page(after="orders/0@4").rows[0]
        with pytest.raises(QueryError, match="which is at orders/0@4") as caught:
            a.get_many(["x"], after="orders/0@5", wait=0.01)
        assert caught.value.reason == "behind_bound"
        app.commit(A, ("upsert", "y", 2))
        found = next(remote.changes("a", position=at.position))
        assert (found.batch, found.changes[0]["key"]) == (1, {"k": "y"})


def test_a_position_that_is_gone_is_an_error(app: App, tmp_path: Path) -> None:
    with open_home(app.home.path.parent) as reader:
        server = Serving(reader, listen("127.0.0.1", 0))
        server.start()
        with connect(server.url) as remote, pytest.raises(QueryError, match="the log ends before") as caught:
            next(remote.changes("a", position="shop.a@7"))
        assert caught.value.reason == "gone"
        server.stop()


def test_a_feed_that_fails_each_time_after_its_begin_ends_with_that_error(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.commit(A, ("upsert", "x", 0))
    app.commit(A, ("upsert", "x", 1))
    (app.home.table("a").log / "data/1-test/part-change.parquet").write_bytes(b"")
    asked: list[str] = []
    stream = Connections.stream

    def counted(self: Connections, path: str, *rest: Any, **named: Any) -> Any:
        asked.append(path)
        return stream(self, path, *rest, **named)

    monkeypatch.setattr(Connections, "stream", counted)
    errors: list[Exception] = []
    with serving(app.home.path.parent) as server, connect(server.url) as remote:
        found = remote.changes("a", position="shop.a@0", patience=1)
        assert next(found).batch == 0

        def rest() -> None:
            try:
                next(found)
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=rest, daemon=True)
        thread.start()
        thread.join(10)
    assert [type(error) for error in errors] == [QueryError]
    # After 0.1, 0.2, 0.4 and 0.8 seconds.
    assert 3 <= len(asked) <= 5


def test_a_client_loads_nothing_heavy() -> None:
    script = """
import json, sys
import keyfold.client
heavy = ("pyspark", "pandas", "numpy", "pyarrow", "uvicorn", "starlette", "pydantic")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
