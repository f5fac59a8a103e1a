"""`history=kf.kafka(...)`: a compacted topic with the latest change of each key of a table."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.kafka_sink import KafkaSinkFollower
from keyfold.engine.kafka import client, topics
from keyfold.engine.kafka.producer import Record
from keyfold.engine.kafka.reading import live_keys
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import reader_snapshot
from keyfold.engine.recovery.view_rebuild import follows
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.nodes import Connector
from keyfold.plan.validate.sinks import HISTORY
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Snapshot = Callable[[], "tuple[int, Iterator[pa.RecordBatch]] | None"]
"""The newest published batch of a table and all rows after it, as changes; None before the first."""

_ROWS_AT_ONCE: Final = 100_000
_LOG: Final = logging.getLogger("keyfold")


def history_follower(
    spark: SparkSession, table: Compiled, home: AppHome, store: ViewStore
) -> KafkaSinkFollower:
    """Follows the table's log into its topic, which is created if it does not exist.

    If the log no longer has everything that the topic lacks, the topic first gets all rows of the table.
    """
    connector, table_home = table.spec.history_topic, home.table(table.spec.name)
    assert connector is not None
    assert connector.kafka is not None
    topics.require_compacted(client.for_python(connector), connector.kafka.topics[0])
    file = table_home.sink(HISTORY)
    recorded: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    if recorded.get("topic") != connector.kafka.topics[0]:
        recorded = {}
    committed, log = table_home.committed_batch(), TableLog(table_home.log_files)
    upto = -1 if committed is None else table_home.spark.before_resizes(committed)
    whole = follows(log, int(recorded.get("batch", -1)), upto)
    # Without an id it was restored from a savepoint: the topic has what came after that.
    if not whole or (recorded and "id" not in recorded):
        recorded = {"batch": -1, "topic": connector.kafka.topics[0], "snapshot": True}
        file.put(json.dumps(recorded).encode())
    if recorded.get("snapshot"):
        return HistoryFollower(spark, home, table, connector, store)
    return KafkaSinkFollower(spark, table_home, table, HISTORY, connector, -1)


class HistoryFollower(KafkaSinkFollower):
    """Starts with a snapshot of the table, in one transaction with the position."""

    def __init__(
        self, spark: SparkSession, home: AppHome, table: Compiled, connector: Connector, store: ViewStore
    ) -> None:
        self._snapshot: Snapshot = lambda: reader_snapshot.rows(spark, table, home, store)
        self._connector, self._schema = connector, table.changes.schema
        super().__init__(spark, home.table(table.spec.name), table, HISTORY, connector, -1)

    def new_record(self, begin: int) -> dict[str, Any]:
        """Records that the snapshot is due, until it is in the topic."""
        return {**super().new_record(begin), "snapshot": True}

    def begin(self, recorded: dict[str, Any], known: int | None) -> int:
        """Writes the snapshot, unless the cluster's position shows that it was written before a crash."""
        found = self._snapshot() if known is None else None
        if found is None:
            return super().begin(recorded, known)
        batch = found[0]
        _LOG.info("%s: topic %s begins with all rows of batch %d", self.full_name, self.topic, batch)
        self.write(batch, self._snapshot_records)
        reached(FaultPoint.SINK_WRITTEN, table=self.full_name, batch=batch)
        self.record(batch)
        return batch

    def _snapshot_records(self) -> Iterator[Record]:
        """All rows, and deletes for keys that only the topic has. No batch runs meanwhile."""
        found = self._snapshot()
        assert found is not None
        batch, rows = found
        headers = self.headers(batch, None)
        left = live_keys(client.for_python(self._connector), self.topic)
        for frame in self._frames(rows):
            for key, value, named in self.messages(frame, headers):
                left.discard(key)
                yield key, value, named
        for key in left:
            yield key, None, headers["delete"]

    def _frames(self, rows: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        """Rows as DataFrames, each with as many as are encoded in one job."""
        import pyarrow as pa
        from pyspark.sql.types import StructType

        pending: list[pa.RecordBatch] = []
        for batch in rows:
            pending.append(batch)
            if sum(one.num_rows for one in pending) >= _ROWS_AT_ONCE:
                yield self._frame(pa.Table.from_batches(pending), StructType)
                pending = []
        if pending:
            yield self._frame(pa.Table.from_batches(pending), StructType)

    def _frame(self, rows: pa.Table, struct: Any) -> Any:
        columns = reader_snapshot.as_parquet(rows.schema)
        schema = struct([self._schema[name] for name in columns.names])
        spark: Any = self.spark
        return spark.createDataFrame(rows.cast(columns), schema=schema)
