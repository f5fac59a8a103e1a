"""Runs in each batch: publishes its rows in the log once, and notifies the followers.

The manifest is the one commit point. A batch that Spark runs again after a crash finds its manifest and
publishes nothing: what followers have seen stays valid. Views, sinks and other tables follow the log at their
own pace, at most `lag` batches behind.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from keyfold.engine.batch.durations import Durations
from keyfold.engine.log import partition_times
from keyfold.engine.log.log_writer import LogWriter
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import count_rows
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.sources import missing_files
from keyfold.engine.storage.layout import TableHome
from keyfold.fault_points import FaultPoint, reached
from keyfold.kernel.api import PartitionClock
from keyfold.plan.nodes import TableSpec
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_PRUNE_EVERY: Final = 10
_WAIT_SECONDS: Final = 0.5


class Stopping(Exception):
    """The app is stopping: this batch does not start, and runs when the app starts again."""


class LogFollower(Protocol):
    """A follower of a table's log in this process."""

    def announce_batch(self) -> None:
        """Announces that a batch is being computed, which will be offered unless it fails."""

    def offer(self, manifest: Manifest) -> None:
        """Hands over a batch that has just been published."""

    def check(self) -> None:
        """Raises the error that stopped the follower, if there is one."""

    def wait_for(self, batch: int, seconds: float | None = None) -> bool:
        """Waits until the follower has a batch."""


@dataclass(frozen=True)
class Refusal:
    """The number of rows that a batch rejected, `most` of them for reasons of the same kind as this one."""

    batch: int
    rejected: int
    most: int
    reason: str


@dataclass
class Run:
    """A table since the app started: its changes and rejected rows, the latest reasons and manifests."""

    changes: int = 0
    rejected: int = 0
    refusals: deque[Refusal] = field(default_factory=lambda: deque(maxlen=100))
    newest: deque[Manifest] = field(default_factory=lambda: deque(maxlen=2))
    """Spark may not have reported the last one yet."""

    def add(self, manifest: Manifest) -> None:
        """Adds one batch."""
        self.newest.append(manifest)
        self.changes += manifest.counts["change"]
        if manifest.reasons:
            most = max(manifest.reasons, key=lambda reason: reason.rows)
            rejected = sum(reason.rows for reason in manifest.reasons)
            self.rejected += rejected
            self.refusals.append(Refusal(manifest.batch, rejected, most.rows, most.example))


@dataclass(frozen=True)
class Publishing:
    """What is published of a batch, and for whom."""

    writer: LogWriter
    changes: bool
    """Whether the log keeps the changes."""
    followers: Sequence[LogFollower] = ()
    lag: int = 2
    """How many batches a follower may be behind."""
    prune: Callable[[], object] = lambda: None
    clocks: Mapping[str, PartitionClock] = field(default_factory=dict)
    """The kernel's clocks of the partitions of topics, by stream."""


class BatchHook:
    """Called by Spark with each batch of one table, or of a stream that has a log."""

    def __init__(self, name: str, home: TableHome, publishing: Publishing) -> None:
        self.name, self.home, self.log = name, home, TableLog(home.log_files)
        self.followers = publishing.followers
        self.clocks = publishing.clocks
        self.stopping = threading.Event()
        self.between_batches = threading.Lock()
        """Held by each batch; another holder delays the next batch."""
        self.keeps_log = threading.Event()
        """While it is set, nothing is removed from the log."""
        self.idle = threading.Event()
        self.idle.set()
        self.last: int | None = None
        self.waited = Durations()
        """How long the newest batches have waited for followers."""
        self.counts = count_rows(self.log)
        self.run = Run()
        self.error: Exception | None = None
        self._writer, self._changes = publishing.writer, publishing.changes
        self._lag, self._prune = publishing.lag, publishing.prune
        self._skipped = missing_files.rejected_rows(home)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with self.between_batches:
            self._call(frame, batch)

    def settle(self) -> None:
        """Publishes a committed but unpublished batch; nothing, where publishing is the commit."""

    def handle_end(self) -> None:
        """Handles the failure of the query, perhaps in the middle of a batch."""

    def drain(self, query: StreamingQuery) -> None:
        """Waits until the query has processed all input that is available now."""
        query.processAllAvailable()

    def _call(self, frame: DataFrame, batch: int) -> None:
        self.idle.clear()
        self.error = None
        try:
            if self.stopping.is_set():
                raise Stopping(f"batch {batch} was not started")
            for follower in self.followers:
                follower.check()
                follower.announce_batch()
            reached(FaultPoint.BATCH_BEGUN, table=self.name, batch=batch)
            self._run(frame, batch)
            self.last = batch
            begun = time.monotonic()
            self._wait_for_followers(batch - self._lag)
            self.waited.record(batch, time.monotonic() - begun)
            reached(FaultPoint.BATCH_DONE, table=self.name, batch=batch)
        except Exception as error:
            # Spark would report it as the text of a Python and a Java stack trace.
            self.error = error
            raise
        finally:
            self.idle.set()

    def _wait_for_followers(self, batch: int) -> None:
        for follower in self.followers:
            # A stop does not wait for a sink whose brokers are away.
            while not self.stopping.is_set() and not follower.wait_for(batch, _WAIT_SECONDS):
                pass

    def _run(self, frame: DataFrame, batch: int) -> None:
        published = self.log.find(batch)
        if published is not None:
            self._writer.run_again(frame)
            # Spark takes the next watermark from what the clocks say.
            partition_times.newest(self.clocks)
            # The attempt that published it may have died before followers were notified.
            self._offer(published)
            return
        spark = self.home.spark
        spark.sync_plan(batch)
        manifest = self._writer.publish(
            frame,
            batch,
            changes=self._changes,
            watermark=spark.watermark(batch),
            offsets=spark.offset_documents(batch),
            skipped=self._skipped.get(batch, ()),
            clocks=self.clocks,
        )
        self._announce_published(manifest)

    def _announce_published(self, manifest: Manifest) -> None:
        self.counts.update(manifest.counts)
        self.run.add(manifest)
        self._offer(manifest)
        if manifest.batch % _PRUNE_EVERY == 0 and not self.keeps_log.is_set():
            self._prune()

    def _offer(self, manifest: Manifest) -> None:
        for follower in self.followers:
            follower.offer(manifest)


class TableHook(BatchHook):
    """The hook of a table, with the table's declaration and the columns of its view."""

    def __init__(self, spec: TableSpec, home: TableHome, schema: ViewSchema, publishing: Publishing) -> None:
        super().__init__(spec.name, home, publishing)
        self.spec, self.schema = spec, schema
