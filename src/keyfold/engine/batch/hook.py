"""What each batch of a table does, in an order that survives a crash at any point.

First the files beside the table (late, rejected and removed rows, changes), then the changes go to the
tables that read them, then view rows and position in one transaction, then sinks; Spark commits the batch
after that. A batch that runs again writes the same files, finds what it has given to other tables, finds its
id in the view and leaves the view alone, and repeats the sinks. The plan is executed once, however many
outputs there are.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from keyfold.engine.batch import side_outputs
from keyfold.engine.batch.rejected_rows import Refusal, RejectedFile
from keyfold.engine.log.chain import BAD, PREVIOUS, Links
from keyfold.engine.sources import missing_files
from keyfold.engine.storage.layout import TableHome
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.nodes import Connector, TableSpec
from keyfold.views.contract import ViewSchema, ViewStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Stopping(Exception):
    """The app is stopping: this batch isn't begun, and runs at the next start."""


@dataclass
class Run:
    """What a table has done since the app was started: changes, rejected rows, and what was rejected last."""

    changes: int = 0
    rejected: int = 0
    refusals: deque[Refusal] = field(default_factory=lambda: deque(maxlen=100))

    def add(self, refusal: Refusal | None) -> None:
        """Of one batch."""
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
    ) -> None:
        self.spec, self.home, self.store, self.schema = spec, home, store, schema
        self.views, self.changelog = views, changelog or bool(spec.sinks)
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
                raise Stopping(f"batch {batch} was not begun")
            self._reached(FaultPoint.BATCH_BEGUN, batch)
            self._run(frame, batch)
            self.last = batch
            self._reached(FaultPoint.BATCH_DONE, batch)
        except Exception as error:
            # Spark would hand it on as a text of two languages' traces.
            self.error = error
            raise
        finally:
            self.idle.set()

    def _run(self, frame: DataFrame, batch: int) -> None:
        logged = self.changelog or bool(self.links)
        wanted = frame if self.views or logged else frame.where(f"{BAD} is not null")
        schema = side_outputs.change_schema(self.schema, previous=PREVIOUS in frame.columns)
        self.home.sync_plan(batch)
        unused = Unused(self.home, batch)
        unused.rejected.write(self.skipped.get(batch, []))
        with self.store.batch(self.spec.name, batch, datetime.now(UTC), self.home.watermark(batch)) as view:
            log = side_outputs.ChangeFile(self.home, batch, schema, keep=bool(self.links)) if logged else None
            for mixed in arrow_batches(wanted):
                self._reached(FaultPoint.BATCH_ROWS, batch)
                changes = _split(mixed, schema, unused)
                self.run.changes += changes.num_rows
                if changes.num_rows:
                    view.apply(changes.select(self.schema.arrow.names))
                    if log:
                        log.write(changes)
            unused.close()
            self._reached(FaultPoint.SIDE_OUTPUTS_WRITTEN, batch)
            unused.count(self)
            if log:
                self._give(log, batch)
        self._reached(FaultPoint.VIEW_COMMITTED, batch)
        for sink in self.spec.sinks:
            self._send(frame, sink, batch)
            self._reached(FaultPoint.SINK_WRITTEN, batch)
        if log and not self.changelog:
            log.path.unlink(missing_ok=True)

    def _give(self, log: side_outputs.ChangeFile, batch: int) -> None:
        """To the tables that read the changes; a batch without any is nothing to them."""
        self._reached(FaultPoint.CHANGELOG_COMPUTED, batch)
        log.close()
        self._reached(FaultPoint.CHANGELOG_WRITTEN, batch)
        if log.rows:
            self.links.put(log.path, batch)
        self._reached(FaultPoint.READERS_GIVEN, batch)

    def _reached(self, point: FaultPoint, batch: int) -> None:
        reached(point, table=self.spec.name, batch=batch)

    def _send(self, frame: DataFrame, sink: Connector, batch: int) -> None:
        """Changes to a sink, from the file and not by running the plan again."""
        from pyspark.sql import functions as F

        path = str(self.home.changes / f"{batch:012d}.parquet")
        changes = frame.sparkSession.read.parquet(path).withColumn("_batch", F.lit(batch))
        writer = changes.write.format(sink.format).mode("append").options(**dict(sink.options))
        writer.save(sink.path) if sink.path else writer.save()


class Unused:
    """The rows of one batch that are not folded: late, removed and rejected ones, each in a file."""

    def __init__(self, home: TableHome, batch: int) -> None:
        self.late, self.rejected = side_outputs.LateFile(home, batch), RejectedFile(home, batch)
        self.removed = side_outputs.RemovedFile(home, batch)

    def write(self, texts: Iterable[str]) -> None:
        """`texts`: JSON, as the kernel makes it; what says how late a row is, is of a late one."""
        found = [json.loads(text) for text in texts]
        self.late.write([row for row in found if "late" in row])
        self.removed.write([row for row in found if "removed" in row])
        self.rejected.write([row for row in found if "late" not in row and "removed" not in row])

    def close(self) -> None:
        for file in (self.late, self.removed, self.rejected):
            file.close()

    def count(self, hook: BatchHook) -> None:
        """Enters the rows into the table's counts."""
        self.late.count(hook.late)
        self.removed.count(hook.removed)
        self.rejected.count(hook.rejected)
        hook.run.add(self.rejected.refusal())


def _split(mixed: pa.RecordBatch, arrow: pa.Schema, unused: Unused) -> pa.RecordBatch:
    """The changes of a record batch; what it does not fold is written down."""
    import pyarrow as pa
    import pyarrow.compute as pc

    why = mixed.column(BAD)
    if why.null_count < len(why):
        unused.write(why.drop_null().to_pylist())
        mixed = mixed.filter(pc.is_null(why))
    columns = [mixed.column(field.name) for field in arrow]
    return pa.RecordBatch.from_arrays(
        [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow
    )


def arrow_batches(frame: Any) -> Iterator[pa.RecordBatch]:
    """The frame's rows as they are computed, a record batch at a time, so that Python never holds them all.

    Batches of one partition come in order, those of different partitions in any; a key is in one partition.
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
                # A job that failed ends the stream in the middle: the JVM knows why.
                server.getResult()
                raise
            if found is None:
                break
            yield found
    server.getResult()
