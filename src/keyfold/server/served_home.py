"""`ServedHome`: the apps of a home for many threads, for as long as the server runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.concurrency import run_in_threadpool

from keyfold.errors import QueryError, choice
from keyfold.read import AppReader, HomeReader
from keyfold.read.status import AppStatus
from keyfold.server.log_watch import LogWatch
from keyfold.server.metrics.collector import HomeCollector
from keyfold.server.metrics.requests import ServerMetrics

# How long point reads go without a look at the home: an app that was moved is noticed after that.
_LOOK_SECONDS: Final = 1.0
# The server has 40; all requests of an app whose store hangs must not take those of the other apps.
_THREADS_OF_APP: Final = 10
T = TypeVar("T")


class ServedHome:
    """Finds apps by name. An app that is dropped, made anew or that has moved its views is noticed."""

    def __init__(self, reader: HomeReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._addresses: dict[AppReader, str] = {}
        self.watch = LogWatch()
        self.requests = ServerMetrics()
        self.metrics = self.requests.registry(HomeCollector(self.names, self._status))
        """What `/metrics` shows."""
        self._threads: dict[AppReader, asyncio.Semaphore] = {}
        self._recent: dict[str | None, tuple[float, AppReader]] = {}

    @property
    def directory(self) -> str:
        """The home, for people."""
        return str(self._reader.directory)

    def names(self) -> list[str]:
        """The apps that have run in the home."""
        return self._reader.names()

    def app(self, name: str | None, hint: str = "/api/apps/APP/tables/...") -> AppReader:
        """An app by its name, or the only one of the home; `hint`: how to name one of several."""
        with self._lock:
            app = self._reader.app(self._only(hint) if name is None else name)
            address = str(app.home.views)
            has_moved = self._addresses.get(app, address) != address
            self._addresses[app] = address
        # Without the lock: a store that hangs keeps nobody from other apps.
        if has_moved:
            app.close()
        # Opened here, so that point reads find them open.
        _ = app.views
        self._recent[name] = (time.monotonic() + _LOOK_SECONDS, app)
        return app

    def recent(self, name: str | None) -> AppReader | None:
        """The app, if it was found a moment ago: without a look at the home."""
        until, app = self._recent.get(name, (0.0, None))
        return app if time.monotonic() < until else None

    async def in_thread(self, app: AppReader | None, work: Callable[..., T], *given: Any) -> T:
        """Does blocking work; for an app on one of its share of the threads. From one event loop alone."""
        if app is None:
            return await run_in_threadpool(work, *given)
        async with self._threads.setdefault(app, asyncio.Semaphore(_THREADS_OF_APP)):
            return await run_in_threadpool(work, *given)

    def close(self) -> None:
        """Closes all views."""
        with self._lock:
            self._recent.clear()
            self._reader.close()

    def without_views(self, name: str) -> AppReader:
        """An app whose views are not opened: a store of them may not answer."""
        with self._lock:
            return self._reader.app(name)

    def _status(self, name: str) -> AppStatus:
        return self.without_views(name).status(views=False)

    def _only(self, hint: str) -> str:
        names = self.names()
        if len(names) > 1:
            raise QueryError(
                "the home has several apps, and the address does not say which",
                reason="not_found",
                where=self.directory,
                hint=f"{hint}; APP is {choice(names)}",
            )
        return names[0] if names else ""
