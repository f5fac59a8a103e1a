"""`connect_async`: the verbs of the synchronous client, many at once, and feeds that are left at once."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from keyfold.client import AsyncClient, AsyncTable, Client, Mirror, RemoteTable, connect, connect_async
from keyfold.engine.polling import wait_until
from keyfold.errors import QueryError
from keyfold.server.serving import Serving
from tests.server.conftest import serving
from tests.server.test_changes import A, App, app

__all__ = ["app"]
Using = Callable[[AsyncClient], Coroutine[Any, Any, Any]]


def using(url: str, work: Using) -> Any:
    async def run() -> Any:
        async with connect_async(url) as remote:
            return await work(remote)

    return asyncio.run(run())


def test_it_has_the_verbs_of_the_synchronous_client() -> None:
    for of, synchronous in ((AsyncClient, Client), (AsyncTable, RemoteTable)):
        verbs = {name for name in vars(synchronous) if not name.startswith("_")}
        assert {name for name in verbs if not hasattr(of, name)} == set()


def test_reads_are_those_of_the_synchronous_client(server: Serving) -> None:
    async def read(remote: AsyncClient) -> Any:
        totals = remote.table("totals")
        scanned = [row async for row in totals.scan(order_by="n")]
        return [
            await totals.get("eu", at_least=1, wait=1),
            await totals.get_many(["us", "none"]),
            await totals.rows(where={"region": ["eu"]}),
            await totals.page(limit=2),
            (await totals.position()).position,
            await totals.schema(),
            scanned,
            await remote.apps(),
            (await remote.status("shop"))["state"],
        ]

    with connect(server.url) as remote:
        totals = remote.table("totals")
        at = totals.position()
        assert at is not None
        assert using(server.url, read) == [
            totals.get("eu"),
            totals.get_many(["us", "none"]),
            totals.rows({"region": "eu"}),
            totals.page(limit=2),
            at.position,
            totals.schema,
            totals.rows(order_by="n"),
            ["shop"],
            "stopped",
        ]


def test_errors_are_the_same(server: Serving) -> None:
    async def wrong(remote: AsyncClient) -> None:
        for read in (remote.table("total").rows(), anext(remote.changes("total"))):
            with pytest.raises(QueryError, match="no table total in app shop"):
                await read
        with pytest.raises(QueryError, match="unknown column 'm'"):
            await anext(remote.table("totals").scan("m > 1"))

    using(server.url, wrong)

    async def away(remote: AsyncClient) -> None:
        with pytest.raises(QueryError, match="the server does not answer"):
            await remote.apps()

    # Nobody listens on a port that is only taken.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        using(f"http://127.0.0.1:{taken.getsockname()[1]}", away)


def test_requests_run_at_once(app: App) -> None:
    """One waits for a batch that the others do not need."""
    app.commit(A, ("upsert", "x", 1))

    async def read(remote: AsyncClient) -> None:
        a = remote.table("a")
        waiting = asyncio.ensure_future(a.get("x", at_least=1, wait="20s"))
        rows = await asyncio.gather(*(a.get("x") for _ in range(100)))
        assert [row["n"] for row in rows] == [1] * 100
        assert not waiting.done()
        app.commit(A, ("upsert", "x", 2))
        assert (await waiting)["n"] == 2

    with serving(app.home.path.parent) as server:
        using(server.url, read)


def no_threads(name: str, seconds: float) -> bool:
    """Whether all threads with names that begin so end in time."""
    return wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith(name)], seconds)


def test_changes_come_until_they_are_left(app: App) -> None:
    app.commit(A, ("upsert", "x", 1))

    async def follow(remote: AsyncClient) -> None:
        found = remote.changes("a", snapshot=True)
        assert [row["n"] for row in (await anext(found)).rows] == [1]
        app.commit(A, ("upsert", "x", 2))
        assert (await anext(found)).changes[0]["after"] == {"k": "x", "n": 2}
        # Nothing more comes: the reader is cancelled while it waits.
        third = asyncio.ensure_future(anext(found))
        await asyncio.sleep(0)
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        # More feeds than a pool of threads would have, none of which keeps a read from its thread.
        feeds = [remote.changes("a", snapshot=True) for _ in range(40)]
        await asyncio.gather(*(anext(one) for one in feeds))
        assert (await remote.table("a").get("x"))["n"] == 2
        for one in feeds:
            await one.aclose()
        # The server says that it is there after ten seconds only.
        assert await asyncio.to_thread(no_threads, "keyfold-stream", 9.5)

    with serving(app.home.path.parent) as server:
        using(server.url, follow)


def test_rows_come_until_they_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left, waits = threading.Event(), threading.Event()
    scan = RemoteTable._scan

    def scanned(self: RemoteTable, *given: Any) -> Iterator[Any]:
        rows = scan(self, *given)
        yield next(rows)
        waits.set()
        yield from rows

    monkeypatch.setattr(RemoteTable, "_scan", scanned)

    class Slow(BaseHTTPRequestHandler):
        """A server that has more rows, which do not come."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"k": "x"}\n')
            left.wait(60)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    async def read(remote: AsyncClient) -> None:
        rows = remote.table("a").scan()
        assert await anext(rows) == {"k": "x"}
        second = asyncio.ensure_future(anext(rows))
        assert await asyncio.to_thread(waits.wait, 20)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert await asyncio.to_thread(no_threads, "keyfold-stream", 20)

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        serves = threading.Thread(target=server.serve_forever)
        serves.start()
        try:
            using(f"http://127.0.0.1:{server.server_port}", read)
        finally:
            left.set()
            server.shutdown()
            serves.join()


def test_a_mirror_that_nobody_awaits_any_more_is_closed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.commit(A, ("upsert", "x", 1))
    make, begun, go_on = Client.mirror, threading.Event(), threading.Event()

    def mirror(self: Client, *given: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(20)
        return make(self, *given, **named)

    monkeypatch.setattr(Client, "mirror", mirror)

    async def leave(remote: AsyncClient) -> None:
        awaited = asyncio.ensure_future(remote.mirror("a"))
        assert await asyncio.to_thread(begun.wait, 20)
        awaited.cancel()
        with pytest.raises(asyncio.CancelledError):
            await awaited
        made: list[Mirror] = []
        close = Mirror.close
        monkeypatch.setattr(Mirror, "close", lambda self: (close(self), made.append(self)))
        go_on.set()
        assert await asyncio.to_thread(wait_until, lambda: made, 20)

    with serving(app.home.path.parent) as server:
        using(server.url, leave)


def test_a_mirror_is_awaited_once(app: App, tmp_path: Path) -> None:
    app.commit(A, ("upsert", "x", 1))

    async def mirror(remote: AsyncClient) -> None:
        with await remote.mirror("a", tmp_path / "a.db") as found:
            assert found.get("x") == {"k": "x", "n": 1}

    with serving(app.home.path.parent) as server:
        using(server.url, mirror)
