"""Notices new batches in logs: looks at each log once, however many feeds follow it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.concurrency import run_in_threadpool

from keyfold.errors import QueryError
from keyfold.read.changes import TableChanges

_LOG: Final = logging.getLogger("keyfold.server")
_LOOK_SECONDS: Final = 0.1


def stopping() -> QueryError:
    """The error for those who wait while the server is about to end."""
    return QueryError("the server is stopping", reason="not_ready", hint="try again once it is back")


@dataclass
class _Watched:
    """A log, who waits for it, and the task that looks at it while somebody does."""

    table: TableChanges
    waiting: set[asyncio.Event] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class LogWatch:
    """Wakes those who wait for new batches. Used from one event loop alone."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self.closed = False
        """Whether the server is about to end, so that nobody waits any more."""

    async def wait(
        self, tables: Sequence[TableChanges], newest: Sequence[int | None], seconds: float
    ) -> bool:
        """Whether one of the logs has another newest batch than it had, after waiting for that."""
        event = asyncio.Event()
        for table in tables:
            self._add(table, event)
        try:
            # Since the caller looked, before it waits here.
            for table, known in zip(tables, newest, strict=True):
                if await run_in_threadpool(table.log.newest) != known:
                    return True
            async with asyncio.timeout(seconds):
                await event.wait()
            return True
        except TimeoutError:
            return False
        finally:
            for table in tables:
                self._remove(table, event)

    def _add(self, table: TableChanges, event: asyncio.Event) -> None:
        found = self._watched.setdefault(table.name, _Watched(table))
        found.waiting.add(event)
        if found.task is None:
            found.task = asyncio.get_running_loop().create_task(self._look(found))

    def _remove(self, table: TableChanges, event: asyncio.Event) -> None:
        self._watched[table.name].waiting.discard(event)

    async def _look(self, found: _Watched) -> None:
        """Looks at a log until nobody waits for it."""
        try:
            newest = await run_in_threadpool(found.table.log.newest)
            while found.waiting and not self.closed:
                await asyncio.sleep(_LOOK_SECONDS)
                now = await run_in_threadpool(found.table.log.newest)
                if now != newest:
                    newest = now
                    self._wake(found)
        except Exception as error:
            # Who waits finds out by reading the log.
            _LOG.info("%s can't be followed: %s", found.table.name, error)
        finally:
            found.task = None
            self._wake(found)

    def _wake(self, found: _Watched) -> None:
        for event in found.waiting:
            event.set()
