"""`connect_async`: the client for asyncio, which runs the verbs of the synchronous one in threads."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from keyfold.client import feed
from keyfold.client.client import Client, connect
from keyfold.client.connection import Ending
from keyfold.client.feed import Changes
from keyfold.client.mirror import Mirror
from keyfold.client.table import RemoteTable, Row, scan

_AT_ONCE: Final = 32
_END: Final = object()
P = ParamSpec("P")
T = TypeVar("T")


class _InThreads:
    """Runs verbs of an object in threads; each has a connection of its own, which is kept open."""

    def __init__(self, verbs: Any, threads: ThreadPoolExecutor) -> None:
        self._verbs, self._threads = verbs, threads

    async def _run(self, verb: Callable[..., T], /, *args: Any, **named: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(verb, self._verbs, *args, **named))


def _awaited(verb: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The same verb, to be awaited."""

    async def call(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        found: T = await self._run(verb, *args, **named)
        return found

    functools.update_wrapper(call, verb)
    return call


class AsyncTable(_InThreads):
    """Reads the latest rows of one table of a server: `RemoteTable`, whose verbs are awaited."""

    get = _awaited(RemoteTable.get)
    get_many = _awaited(RemoteTable.get_many)
    page = _awaited(RemoteTable.page)
    rows = _awaited(RemoteTable.rows)
    position = _awaited(RemoteTable.position)

    async def schema(self) -> dict[str, dict[str, str]]:
        """The types of `keys` and other `columns` by name, as Spark SQL has them."""
        return await self._run(lambda table: table.schema)

    def scan(self, *reading: Any, **named: Any) -> AsyncIterator[Row]:
        """The rows one by one while they arrive, with the arguments of `RemoteTable.scan`."""
        ending = Ending()
        return _stepped(scan(ending, self._verbs, *reading, **named), ending)


class AsyncClient(_InThreads):
    """Reads the apps of a server: `Client`, whose verbs are awaited. 32 requests run at once, others wait.

    As an asynchronous context manager it is closed at the end.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client, ThreadPoolExecutor(_AT_ONCE, "keyfold-client"))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        self._verbs.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    apps = _awaited(Client.apps)
    status = _awaited(Client.status)

    async def mirror(self, *given: Any, **named: Any) -> Mirror:
        """A copy of a table, as `Client.mirror` makes it; its reads in memory need no await."""
        made = self._threads.submit(Client.mirror, self._verbs, *given, **named)
        try:
            return await asyncio.wrap_future(made)
        except asyncio.CancelledError:
            # A thread that has begun makes the mirror, which then nobody would close.
            made.add_done_callback(_close)
            raise

    def table(self, name: str) -> AsyncTable:
        """The rows of `app.table`, or of `table` in a home with one app."""
        return AsyncTable(self._verbs.table(name), self._threads)

    def changes(
        self, *tables: str, snapshot: bool = False, position: str | None = None, patience: float = 60
    ) -> AsyncIterator[Changes]:
        """The changes of some tables, as `Client.changes` has them. Each feed has a thread of its own."""
        ending, connections = Ending(), self._verbs.connections
        return _stepped(feed.follow(connections, tables, snapshot, position, patience, ending), ending)


def _close(made: Future[Mirror]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close()


async def _stepped(items: Iterator[T], ending: Ending) -> AsyncIterator[T]:
    """The items of an iterator that is stepped in a thread; it is closed when nobody wants more."""
    thread = ThreadPoolExecutor(1, "keyfold-stream")
    loop = asyncio.get_running_loop()
    try:
        while True:
            item: Any = await loop.run_in_executor(thread, next, items, _END)
            if item is _END:
                return
            yield item
    finally:
        # A step that still waits for the server ends by this, and the iterator is closed behind it.
        ending.end()
        if (close := getattr(items, "close", None)) is not None:
            thread.submit(close)
        thread.shutdown(wait=False)


def connect_async(
    url: str = "http://127.0.0.1:8642", *, token: str | None = None, timeout: float = 90
) -> AsyncClient:
    """A client for asyncio of the server at an address, with the arguments of `connect`."""
    return AsyncClient(connect(url, token=token, timeout=timeout))
