"""Sinks: destinations of a table's changes beside its view."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.follower import Follower
from keyfold.engine.followers.kafka_sink import KafkaSinkFollower
from keyfold.engine.internal_columns import PREVIOUS
from keyfold.engine.log.change_frame import change_frame
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.nodes import Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Sink(Protocol):
    """A destination of changes, written at least once.

    A batch whose position was not recorded before a crash is written again, with the same changes under the
    same number; a sink that keeps the number of its newest batch can skip them and so be exactly once.
    """

    def write(self, changes: DataFrame, batch: int) -> None:
        """Writes the changes of one batch: `_op`, the table's columns and `_batch`."""


@dataclass(frozen=True)
class SparkSink:
    """Any format that Spark can append to."""

    connector: Connector

    def write(self, changes: DataFrame, batch: int) -> None:
        connector = self.connector
        writer = changes.write.format(connector.format).mode("append").options(**dict(connector.options))
        writer.save(connector.path) if connector.path else writer.save()


SINKS: Final[dict[str, Callable[[Connector], Sink]]] = {"files": SparkSink, "spark": SparkSink}
"""How a sink is opened, by kind."""


def sink_follower(
    spark: SparkSession, home: TableHome, table: Compiled, name: str, connector: Connector, begin: int
) -> Follower:
    """Follows a table's log for one of its sinks; a new sink starts after the batch `begin`."""
    make = FOLLOWERS.get(connector.kind, SinkFollower)
    return make(spark, home, table, name, connector, begin)


class SinkFollower(Follower):
    """Writes each batch with changes to a sink, then records its position."""

    def __init__(
        self,
        spark: SparkSession,
        home: TableHome,
        table: Compiled,
        name: str,
        connector: Connector,
        begin: int,
    ) -> None:
        self._spark, self._sink = spark, SINKS[connector.kind](connector)
        self._file = home.sink(name)
        position = _position(self._file, begin)
        super().__init__(f"sink {name}", table.spec.name, TableLog(home.log_files), position)

    def apply(self, manifest: Manifest) -> None:
        parts = manifest.of_kind("change")
        if parts:
            from pyspark.sql import functions as F

            found = change_frame(self._spark, self.log, manifest.batch, parts)
            self._sink.write(found.withColumn("_batch", F.lit(manifest.batch)).drop(PREVIOUS), manifest.batch)
            reached(FaultPoint.SINK_WRITTEN, table=self.table, batch=manifest.batch)
        self._file.put(json.dumps({"batch": manifest.batch}).encode())


FOLLOWERS: Final[dict[str, Callable[..., Follower]]] = {"kafka": KafkaSinkFollower}
"""Sinks that are followers of their own, by kind: they write the position together with the changes."""


def _position(file: StoredFile, begin: int) -> int:
    """The recorded position. A new sink starts after `begin`, which is recorded at once."""
    try:
        return int(json.loads(file.read_bytes())["batch"])
    except FileNotFoundError:
        file.put(json.dumps({"batch": begin}).encode())
        return begin
