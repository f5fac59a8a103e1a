"""Writes a table's changes to a topic of Kafka: exactly once by transactions, or at least once."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.follower import Abandoned, Follower
from keyfold.engine.kafka import client
from keyfold.engine.kafka.failures import Retry
from keyfold.engine.kafka.messages import bare_key, encoded
from keyfold.engine.kafka.producer import AtLeastOnce, BatchProducer, ExactlyOnce, Record
from keyfold.engine.log.change_frame import change_frame
from keyfold.engine.log.manifest import Manifest, Part
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.nodes import Connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAUSE_SECONDS: Final = 1.0
# Of compressed files, whose rows are in the driver's memory at once.
_BYTES_AT_ONCE: Final = 16 << 20

_LOG: Final = logging.getLogger("keyfold.sink")


class KafkaSinkFollower(Follower):
    """Writes each batch with changes as one transaction, which also has the batch's number.

    The number is in a file too, for batches without changes. After a crash between transaction and file, the
    cluster's number counts.
    """

    def __init__(
        self,
        spark: SparkSession,
        home: TableHome,
        table: Compiled,
        number: int | str,
        connector: Connector,
        begin: int,
    ) -> None:
        assert connector.kafka is not None
        self._spark, self._view, self._bare_key = spark, table.view, bare_key(table.view)
        self._full_name = f"{table.spec.app}.{table.spec.name}"
        self._file = StoredFile(home.storage, f"sinks/{number}.json")
        self._topic = connector.kafka.topics[0]
        recorded = self._recorded(begin)
        self._identity = str(recorded["id"])
        self._closed = False
        self._producer = self._opened(connector)
        known = self._producer.ready(connector.kafka.wait_ms / 1000)
        position = max(int(recorded["batch"]), -1 if known is None else known)
        name = table.spec.name
        super().__init__(f"sink-{name}-{number}", name, TableLog(home.log_files), position)

    def apply(self, manifest: Manifest) -> None:
        if manifest.of_kind("change"):
            self._write(manifest)
            reached(FaultPoint.SINK_WRITTEN, table=self.table, batch=manifest.batch)
        self._record(manifest.batch)

    def close(self, seconds: float | None = None) -> None:
        super().close(seconds)
        self._producer.close()

    def _write(self, manifest: Manifest) -> None:
        """Writes a batch, again and again while the brokers are away."""
        told = False
        while True:
            try:
                self._producer.write(manifest.batch, lambda: self._records(manifest))
                if told:
                    _LOG.warning("topic %s can be written again", self._topic)
                return
            except Retry as reason:
                if not told:
                    _LOG.warning("topic %s can't be written now, retrying: %s", self._topic, reason)
                    told = True
            if self.closing():
                raise Abandoned
            wait_until(self.closing, _PAUSE_SECONDS)

    def _records(self, manifest: Manifest) -> Iterator[Record]:
        """The changes of a batch as messages, in order."""
        mark = "" if manifest.watermark is None else manifest.watermark.isoformat()
        shared = [("_batch", str(manifest.batch)), ("_table", self._full_name), ("_watermark", mark)]
        if self._bare_key is not None:
            shared.append(("_key", self._bare_key))
        headers: dict[str, list[tuple[str, str | bytes | None]]] = {
            op: [("_op", op), *shared] for op in ("upsert", "final", "delete")
        }
        for parts in _groups(manifest.of_kind("change")):
            changes = change_frame(self._spark, self.log, manifest.batch, parts)
            found = encoded(changes, self._view).toArrow()
            for chunk in found.to_batches():
                columns = (chunk.column(name).to_pylist() for name in ("_op", "key", "value"))
                for op, key, value in zip(*columns, strict=True):
                    yield key, value, headers[op]

    def _opened(self, connector: Connector) -> BatchProducer:
        assert connector.kafka is not None
        settings = client.for_python(connector)
        if connector.kafka.delivery == "at_least_once":
            return AtLeastOnce(self._topic, settings, self.closing)
        return ExactlyOnce(self._topic, settings, self.closing, self._identity)

    def _recorded(self, begin: int) -> dict[str, Any]:
        """What was recorded. A new sink, or one for another topic, begins after `begin`."""
        try:
            found: dict[str, Any] = json.loads(self._file.read_bytes())
            if found.get("topic") == self._topic:
                if "id" in found:
                    return found
                # Restored from a savepoint, or cloned: batches after this one are others than before.
                begin = int(found["batch"])
        except FileNotFoundError:
            pass
        # Unique to this home and life of the table: after a reset, batches are counted from the first again.
        identity = f"keyfold.{self._full_name}.{self._topic}.{secrets.token_hex(8)}"
        new = {"batch": begin, "topic": self._topic, "id": identity}
        self._file.put(json.dumps(new).encode())
        return new

    def _record(self, batch: int) -> None:
        found = {"batch": batch, "topic": self._topic, "id": self._identity}
        self._file.put(json.dumps(found).encode())


def _groups(parts: list[Part]) -> Iterator[list[Part]]:
    """The parts in order, as many together as fit into memory."""
    group: list[Part] = []
    for part in parts:
        if group and sum(one.bytes for one in (*group, part)) > _BYTES_AT_ONCE:
            yield group
            group = []
        group.append(part)
    if group:
        yield group
