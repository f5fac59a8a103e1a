"""The failures of a running app: the first of each table, and the end of the JVM."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from keyfold.engine.batch.hook import BatchHook, Stopping, TableHook
from keyfold.engine.followers.follower import Follower
from keyfold.engine.jvm import process
from keyfold.engine.recovery.query_failure import explain_failure
from keyfold.engine.spark_errors import ended_by
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import JavaEnded, RunError
from keyfold.read.metrics import Failure

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Failures:
    """Watches queries and the followers of logs; each failure is kept with the time it was first seen."""

    def __init__(
        self,
        app: str,
        home: AppHome,
        queries: Mapping[str, StreamingQuery],
        hooks: Mapping[str, BatchHook],
        followers: Sequence[Follower] = (),
    ) -> None:
        self._app, self._home, self._queries, self._hooks = app, home, queries, hooks
        self._followers = followers
        self._found: dict[str | None, tuple[datetime, RunError]] = {}
        self._lock = threading.Lock()
        self.raised = False
        """Whether a failure has been raised to a caller."""
        self.stopped = False
        """Whether the app has stopped: from then on the end of the JVM is not a failure."""

    def first(self) -> RunError | None:
        """The first failure, if there is one."""
        with self._lock:
            try:
                if None not in self._found and not self.stopped:
                    with process.reporting_java_end(self._app):
                        self._poll()
            except JavaEnded as ended:
                self._found[None] = datetime.now(UTC), ended
            return next((error for _, error in self._found.values()), None)

    def java_ended(self) -> bool:
        """Whether the JVM has ended, and all queries with it."""
        self.first()
        return None in self._found

    def _poll(self) -> None:
        for name, query in self._queries.items():
            hook = self._hooks[name]
            error = None if name in self._found or query.isActive else ended_by(query)
            if error is not None and not isinstance(hook.error, Stopping):
                hook.handle_end()
                if hook.error is not None and any(f.error is hook.error for f in self._followers):
                    continue  # what follows the log has failed, and is named below
                why = explain_failure(
                    self._app,
                    name,
                    hook.home.planned_batch(),
                    hook.error or error,
                    self._home,
                    stream=not isinstance(hook, TableHook),
                )
                self._found[name] = datetime.now(UTC), why
        for follower in self._followers:
            name, table = f"{follower.name} of {follower.table}", follower.table
            if follower.error is not None and name not in self._found:
                batch, kind = follower.due, follower.name
                why = explain_failure(self._app, table, batch, follower.error, self._home, follower=kind)
                self._found[name] = datetime.now(UTC), why

    def raise_first(self) -> None:
        """Raises the first failure, if there is one."""
        error = self.first()
        if error is not None:
            self.raised = True
            raise error

    def all(self) -> list[Failure]:
        """The failures for `status`, in the order in which they were seen."""
        self.first()
        return [as_failure(error, at) for at, error in self._found.values()]


def as_failure(error: RunError, at: datetime) -> Failure:
    """An error as the status has it."""
    return Failure(at=at, table=error.table, batch=error.batch, kind=type(error).__name__, text=str(error))
