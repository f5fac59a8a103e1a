"""Writes a table's changes to a topic of Kafka: exactly once by transactions, or at least once."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.follower import Abandoned, Follower
from keyfold.engine.followers.sink_encoding import sink_encoding
from keyfold.engine.kafka import client
from keyfold.engine.kafka.failures import Retry
from keyfold.engine.kafka.producer import AtLeastOnce, BatchProducer, ExactlyOnce, Headers, Record
from keyfold.engine.log.change_frame import change_frame
from keyfold.engine.log.manifest import Manifest, Part
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import RunError
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.call_site import location
from keyfold.plan.nodes import Connector, Site

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        name: str,
        connector: Connector,
        begin: int,
    ) -> None:
        assert connector.kafka is not None
        self.full_name = f"{table.spec.app}.{table.spec.name}"
        self.spark = spark
        with _name_table(self.full_name, table.spec.site):
            self._encoding = sink_encoding(spark, table, connector)
        self._file = home.sink(name)
        self.topic = connector.kafka.topics[0]
        recorded = self._read_position(begin)
        self._identity = str(recorded["id"])
        self._closed = False
        with _name_table(self.full_name, table.spec.site):
            self._producer = self._open_producer(connector)
            known = self._producer.ready(connector.kafka.answer_wait_ms / 1000)
        position = self.begin(recorded, known)
        super().__init__(f"sink {name}", table.spec.name, TableLog(home.log_files), position)

    def begin(self, recorded: dict[str, Any], known: int | None) -> int:
        """The batch that the topic has: the recorded one, or that of the cluster."""
        return max(int(recorded["batch"]), -1 if known is None else known)

    def apply(self, manifest: Manifest) -> None:
        if manifest.of_kind("change"):
            self.write(manifest.batch, lambda: self._records(manifest))
            reached(FaultPoint.SINK_WRITTEN, table=self.table, batch=manifest.batch)
        self.record(manifest.batch)

    def close(self, seconds: float | None = None) -> None:
        super().close(seconds)
        self._producer.close()

    def write(self, batch: int, records: Callable[[], Iterator[Record]]) -> None:
        """Writes a batch, retrying while the brokers are unavailable."""
        told = False
        while True:
            try:
                self._producer.write(batch, records)
                if told:
                    _LOG.warning("topic %s can be written again", self.topic)
                return
            except Retry as reason:
                if not told:
                    _LOG.warning("topic %s can't be written now, retrying: %s", self.topic, reason)
                    told = True
            if self.closing():
                raise Abandoned
            wait_until(self.closing, _PAUSE_SECONDS)

    def _records(self, manifest: Manifest) -> Iterator[Record]:
        """The changes of a batch as messages, in order."""
        headers = self.headers(manifest.batch, manifest.watermark)
        for parts in _groups(manifest.of_kind("change")):
            yield from self.messages(change_frame(self.spark, self.log, manifest.batch, parts), headers)

    def headers(self, batch: int, watermark: datetime | None) -> dict[str, Headers]:
        """The headers of a batch's messages, by operation."""
        shared = self._encoding.batch_headers(self.full_name, batch, watermark)
        return {op: [("_op", op), *shared] for op in ("upsert", "final", "delete")}

    def messages(self, changes: DataFrame, headers: Mapping[str, Headers]) -> Iterator[Record]:
        """Changes as messages."""
        for chunk in self._encoding.encode(changes).toArrow().to_batches():
            columns = (chunk.column(name).to_pylist() for name in ("_op", "key", "value"))
            for op, key, value in zip(*columns, strict=True):
                yield self._encoding.key_bytes(key), value, headers[op]

    def _open_producer(self, connector: Connector) -> BatchProducer:
        assert connector.kafka is not None
        settings = client.for_python(connector)
        if connector.kafka.delivery == "at_least_once":
            return AtLeastOnce(self.topic, settings, self.closing)
        return ExactlyOnce(self.topic, settings, self.closing, self._identity)

    def _read_position(self, begin: int) -> dict[str, Any]:
        """The recorded position; a new sink starts after `begin`."""
        try:
            found: dict[str, Any] = json.loads(self._file.read_bytes())
            if found.get("topic") == self.topic and "id" in found:
                return found
            # Of another topic, or without an id after a restore or clone: the cluster's position does not
            # refer to the batches after this one.
            begin = int(found["batch"])
        except FileNotFoundError:
            pass
        new = self.new_record(begin)
        self._file.put(json.dumps(new).encode())
        return new

    def new_record(self, begin: int) -> dict[str, Any]:
        """The record of a new sink."""
        # Unique to this home and life of the table: after a reset, batch numbers start over.
        identity = f"keyfold.{self.full_name}.{self.topic}.{secrets.token_hex(8)}"
        return {"batch": begin, "topic": self.topic, "id": identity}

    def record(self, batch: int) -> None:
        """Records the position."""
        found = {"batch": batch, "topic": self.topic, "id": self._identity}
        self._file.put(json.dumps(found).encode())


@contextmanager
def _name_table(table: str, site: Site | None) -> Iterator[None]:
    """Names the sink's table in errors of clients."""
    try:
        yield
    except RunError as error:
        where = error.where or location(table, site)
        raise RunError(error.what, where=where, given=error.given, hint=error.hint) from None


def _groups(parts: list[Part]) -> Iterator[list[Part]]:
    """The parts in order, in groups that fit into memory."""
    group: list[Part] = []
    for part in parts:
        if group and sum(one.bytes for one in (*group, part)) > _BYTES_AT_ONCE:
            yield group
            group = []
        group.append(part)
    if group:
        yield group
