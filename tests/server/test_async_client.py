"""`connect_async`: the verbs of the synchronous client, many at once, and feeds that are left at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from keyfold.client import AsyncClient, AsyncTable, Client, RemoteTable, connect, connect_async
from keyfold.engine.polling import wait_until
from keyfold.errors import QueryError
from keyfold.server.serving import Serving
from tests.ports import free_port
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

    using(f"http://127.0.0.1:{free_port()}", away)


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


def test_changes_come_until_they_are_left(app: App) -> None:
    app.commit(A, ("upsert", "x", 1))

    def streams() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name.startswith("keyfold-stream")]

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

    with serving(app.home.path.parent) as server:
        using(server.url, follow)
        assert wait_until(lambda: not streams(), seconds=5)


def test_a_mirror_is_awaited_once(app: App, tmp_path: Path) -> None:
    app.commit(A, ("upsert", "x", 1))

    async def mirror(remote: AsyncClient) -> None:
        with await remote.mirror("a", tmp_path / "a.db") as found:
            assert found.get("x") == {"k": "x", "n": 1}

    with serving(app.home.path.parent) as server:
        using(server.url, mirror)
