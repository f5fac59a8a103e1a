"""What each batch of a table does, in an order that survives a crash at any point.

First come the table's files (late, rejected and duplicate rows, changes), then the changes go to the tables
that read them, then view rows and position are committed in one transaction, then sinks are written; Spark
commits the batch after that. A batch that runs again writes the same files, skips the tables that have its
changes, leaves a view that has its id as it is, and writes to the sinks again. The plan runs once, however
many outputs there are.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from keyfold.engine.batch import side_outputs
from keyfold.engine.batch.rejected_rows import Refusal, RejectedFile
from keyfold.engine.internal_columns import PREVIOUS, SIDE_OUTPUT
from keyfold.engine.log.chain import Links
from keyfold.engine.sources import missing_files
from keyfold.engine.storage.layout import TableHome
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.nodes import TableSpec
from keyfold.views.contract import ViewSchema, ViewStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Stopping(Exception):
    """The app is stopping: this batch does not start, and runs when the app starts again."""


@dataclass
class Run:
    """A table's counts since the app started: changes, rejected rows, and the latest reasons."""

    changes: int = 0
    rejected: int = 0
    refusals: deque[Refusal] = field(default_factory=lambda: deque(maxlen=100))

    def add(self, refusal: Refusal | None) -> None:
        """Adds the rejected rows of one batch."""
        if refusal is not None:
            self.rejected += refusal.rejected
            self.refusals.append(refusal)


class BatchHook:
    """Called by Spark with each batch of one table."""

    def __init__(
        self,
        spec: TableSpec,
        home: TableHome,
        store: ViewStore,
        schema: ViewSchema,
        *,
        views: bool,
        changelog: bool,
        links: Links | None = None,
        sinks: Sequence[Callable[[DataFrame, int], None]] = (),
    ) -> None:
        self.spec, self.home, self.store, self.schema = spec, home, store, schema
        self.views, self.changelog, self.sinks = views, changelog or bool(sinks), sinks
        self.links = links or Links()
        self.stopping = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.last: int | None = None
        self.late = side_outputs.counts(home.late)
        self.rejected = side_outputs.counts(home.rejected)
        self.removed = side_outputs.removed_counts(home.removed)
        self.run = Run()
        self.error: Exception | None = None
        self.skipped = missing_files.rejected(home)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.idle.clear()
        self.error = None
        try:
            if self.stopping.is_set():
                raise Stopping(f"batch {batch} was not started")
            self._reached(FaultPoint.BATCH_BEGUN, batch)
            self._run(frame, batch)
            self.last = batch
            self._reached(FaultPoint.BATCH_DONE, batch)
        except Exception as error:
            # Spark would report it as the text of a Python and a Java stack trace.
            self.error = error
            raise
        finally:
            self.idle.set()

    def _run(self, frame: DataFrame, batch: int) -> None:
        logged = self.changelog or bool(self.links)
        wanted = frame if self.views or logged else frame.where(f"{SIDE_OUTPUT} is not null")
        schema = side_outputs.change_schema(self.schema, previous=PREVIOUS in frame.columns)
        self.home.spark.sync_plan(batch)
        files = SideOutputFiles(self.home, batch)
        files.rejected.write(cast("list[side_outputs.SideOutput]", self.skipped.get(batch, [])))
        watermark = self.home.spark.watermark(batch)
        with self.store.batch(self.spec.name, batch, datetime.now(UTC), watermark) as view:
            log = side_outputs.ChangeFile(self.home, batch, schema, keep=bool(self.links)) if logged else None
            for mixed in arrow_batches(wanted):
                self._reached(FaultPoint.BATCH_ROWS, batch)
                changes = _split(mixed, schema, files)
                self.run.changes += changes.num_rows
                if changes.num_rows:
                    view.apply(changes.select(self.schema.arrow.names))
                    if log:
                        log.write(changes)
            files.close()
            self._reached(FaultPoint.SIDE_OUTPUTS_WRITTEN, batch)
            files.count(self)
            if log:
                self._publish(log, batch)
        self._reached(FaultPoint.VIEW_COMMITTED, batch)
        if self.sinks:
            self._send(frame, batch)
        if log and not self.changelog:
            log.path.unlink(missing_ok=True)

    def _publish(self, log: side_outputs.ChangeFile, batch: int) -> None:
        """Sends the changes to the tables that read them; an empty batch is not sent."""
        self._reached(FaultPoint.CHANGELOG_COMPUTED, batch)
        log.close()
        self._reached(FaultPoint.CHANGELOG_WRITTEN, batch)
        if log.rows:
            self.links.put(log.path, batch)
        self._reached(FaultPoint.READERS_GIVEN, batch)

    def _reached(self, point: FaultPoint, batch: int) -> None:
        reached(point, table=self.spec.name, batch=batch)

    def _send(self, frame: DataFrame, batch: int) -> None:
        """Writes the changes to the sinks, from the file instead of running the plan again."""
        from pyspark.sql import functions as F

        path = str(self.home.changes / f"{batch:012d}.parquet")
        changes = frame.sparkSession.read.parquet(path).withColumn("_batch", F.lit(batch))
        for write in self.sinks:
            write(changes, batch)
            self._reached(FaultPoint.SINK_WRITTEN, batch)


class SideOutputFiles:
    """The side outputs of one batch, a file for each kind: late, duplicate and rejected rows."""

    def __init__(self, home: TableHome, batch: int) -> None:
        self.late = side_outputs.LateFile(home, batch)
        self.duplicates = side_outputs.DuplicateFile(home, batch)
        self.rejected = RejectedFile(home, batch)

    def write(self, found: pa.StructArray) -> None:
        """`found`: values of the kernel's side output column, none of them null."""
        import pyarrow.compute as pc

        kinds = pc.struct_field(found, "kind")
        late, duplicate = pc.equal(kinds, "late"), pc.equal(kinds, "duplicate")
        self.late.write(found.filter(late).to_pylist())
        self.duplicates.write(found.filter(duplicate).to_pylist())
        self.rejected.write(found.filter(pc.invert(pc.or_(late, duplicate))).to_pylist())

    def close(self) -> None:
        for file in (self.late, self.duplicates, self.rejected):
            file.close()

    def count(self, hook: BatchHook) -> None:
        """Enters the rows into the table's counts."""
        self.late.count(hook.late)
        self.duplicates.count(hook.removed)
        self.rejected.count(hook.rejected)
        hook.run.add(self.rejected.refusal())


def _split(mixed: pa.RecordBatch, arrow: pa.Schema, files: SideOutputFiles) -> pa.RecordBatch:
    """The changes of a record batch; its side outputs are written to their files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    side = mixed.column(SIDE_OUTPUT)
    if side.null_count < len(side):
        files.write(side.drop_null())
        mixed = mixed.filter(pc.is_null(side))
    columns = [mixed.column(field.name) for field in arrow]
    return pa.RecordBatch.from_arrays(
        [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow
    )


def arrow_batches(frame: Any) -> Iterator[pa.RecordBatch]:
    """The frame's rows as they are computed, a record batch at a time: Python never holds them all.

    Batches of one partition come in order, those of different partitions in any order; the rows of a key
    are in one partition.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.util import _load_from_socket

    port, secret, server = frame._jdf.collectAsArrowToPython()
    with _load_from_socket((port, secret), ArrowStreamSerializer()) as stream:
        while True:
            try:
                found = next(stream, None)
            except (pa.ArrowException, OSError, EOFError):
                # A job that fails ends the stream early; the server's result has the cause.
                server.getResult()
                raise
            if found is None:
                break
            yield found
    server.getResult()
