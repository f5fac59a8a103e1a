"""Runs in each batch of real-time mode: its tasks write, Spark commits, and then it is published.

Such a batch lasts for seconds, and its changes are sent as they arrive. Its output is prepared when its tasks
are done, and published when the next batch begins, which is after Spark's commit. An interrupted batch runs
again with the rows available then: nothing of it has been published.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.batch.hook import Stopping, TableHook
from keyfold.engine.kafka.messages import json_encoding
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.source_offsets import Messages
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS: Final = 5.0


class RealTimeHook(TableHook):
    """The hook of a table in real-time mode; called before each batch, and when its tasks are done."""

    _available: Callable[[], Messages]
    _newest: Manifest | None = None
    """The newest batch that followers have been notified of."""
    _directory = ""
    _holds_batch = False

    def prepare(self, available: Callable[[], Messages]) -> None:
        """Called before the query starts; `available` returns the ends of the topics that the table reads."""
        newest = self.log.newest()
        self._available, self._newest = available, None if newest is None else self.log.find(newest)

    def begin(self, batch: int) -> dict[str, Any]:
        """Called before a batch: the directory for its parts, and the headers of its messages."""
        self.error = None
        try:
            self._take_batch()
            self.settle()
            if self.stopping.is_set():
                raise Stopping(f"batch {batch} was not started")
            for follower in self.followers:
                follower.check()
            self._wait_for_followers(batch - 1 - self._lag)
            reached(FaultPoint.BATCH_BEGUN, table=self.name, batch=batch)
            attempt = secrets.token_hex(4)
            self._directory = f"data/{batch}-{attempt}"
            return {
                "directory": self.log.storage.uri(self._directory),
                "changes": self._changes,
                "headers": self._headers(batch, attempt),
            }
        except Exception as error:
            self._give_batch(error)
            raise

    def handle_prepared(self, batch: int, written: dict[str, Any]) -> None:
        """Called when the tasks of a batch are done; Spark commits it next."""
        try:
            reached(FaultPoint.PARTS_WRITTEN, table=self.name, batch=batch)
            self._writer.prepare(self._directory, batch, written, self.clocks)
            self.last = batch
            reached(FaultPoint.BATCH_DONE, table=self.name, batch=batch)
        except Exception as error:
            self._give_batch(error)
            raise
        self._give_batch()

    def settle(self) -> None:
        """Publishes the prepared batch if Spark has committed it."""
        manifest = self._writer.settle(self.home)
        if manifest is not None:
            self._announce_published(manifest)
            self._newest = manifest

    def handle_end(self) -> None:
        """Releases a batch that failed in its tasks, since the hook is not called again for it."""
        self._give_batch(self.error)

    def drain(self, query: StreamingQuery) -> None:
        """Waits until published batches have read everything that is in the topics now.

        Spark's own wait ends with a batch that has read nothing, perhaps because its tasks started late.
        """
        wanted = self._available()
        while not self._have_read(wanted):
            if not query.isActive:
                query.processAllAvailable()  # raises the error that ended it
                return
            wait_until(lambda: self._have_read(wanted) or not query.isActive, _POLL_SECONDS)

    def _have_read(self, wanted: Messages) -> bool:
        manifest = self._newest
        read = {} if manifest is None or not manifest.offsets else manifest.offsets[0] or {}
        return all(
            int(read.get(topic, {}).get(number, 0)) >= offset
            for topic, partitions in wanted.items()
            for number, offset in partitions.items()
        )

    def _take_batch(self) -> None:
        """Keeps others from running between batches; a failed batch has not released the lock."""
        if not self._holds_batch:
            self.between_batches.acquire()
            self._holds_batch = True
        self.idle.clear()

    def _give_batch(self, error: Exception | None = None) -> None:
        self.error = error
        if self._holds_batch:
            self._holds_batch = False
            self.between_batches.release()
        self.idle.set()

    def _headers(self, batch: int, attempt: str) -> dict[str, str]:
        """The headers in the form of sinks, with the attempt at the batch that a message belongs to."""
        watermark = self.home.spark.next_watermark(batch - 1)
        table = f"{self.spec.app}.{self.spec.name}"
        shared = json_encoding(self.schema).batch_headers(table, batch, watermark)
        return {**dict(shared), "_attempt": attempt}


class HookEvents:
    """The hook as an object that the JVM calls, by an interface of Java's own."""

    def __init__(self, hook: RealTimeHook) -> None:
        self._hook = hook

    def apply(self, event: str) -> str | None:
        """Handles the events of the kernel's `PythonBatchEvents`."""
        found = json.loads(event)
        if found["event"] == "begin":
            return json.dumps(self._hook.begin(found["batch"]))
        self._hook.handle_prepared(found["batch"], found["written"])
        return None

    class Java:
        """The interfaces by which Py4J makes the object known to the JVM."""

        implements = ("java.util.function.Function",)
