"""Starts a table's query in Spark's real-time mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import session
from keyfold.engine.batch.realtime_hook import HookEvents, RealTimeHook
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.kafka import client
from keyfold.engine.kafka import connector as kafka_connector
from keyfold.engine.kafka.messages import json_encoding
from keyfold.plan.nodes import AppSpec, Connector, TableSpec
from keyfold.plan.table_keys import closes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SHORTEST_MS: Final = 2_000
LONGEST_MS: Final = 5_000
"""Of a batch whose length is not declared."""
MIN_DURATION: Final = "spark.sql.streaming.realTimeMode.minBatchDuration"


def batch_ms(app: AppSpec, table: TableSpec) -> int:
    """How long a batch lasts: `every` of the app, else a tenth of the table's windows or TTL.

    Event time advances between batches, so that is how much later a window closes, or a key expires.
    """
    if app.every_ms is not None:
        return app.every_ms
    window = table.window.every_ms or table.window.size_ms if closes(table.window) and table.window else None
    waits = [ms for ms in (window, table.ttl_ms) if ms]
    return max(SHORTEST_MS, min([LONGEST_MS, *(ms // 10 for ms in waits)]))


class RealTimeQuery:
    """What a query in real-time mode is started with, and started again after a transient failure."""

    def __init__(self, spark: SparkSession, table: Compiled, hook: RealTimeHook, batch_ms: int) -> None:
        self._spark, self._table, self._hook, self._batch_ms = spark, table, hook, batch_ms
        self._topics = [_options(sink) for _, sink in table.spec.sinks]

    def start(self) -> StreamingQuery:
        """Starts it; the session must allow batches of its length."""
        from pyspark.java_gateway import ensure_callback_server_started
        from pyspark.sql.streaming.query import StreamingQuery

        serve: Any = ensure_callback_server_started
        serve(self._spark.sparkContext._gateway)
        kafka_connector.use(self._spark)
        frame = self._table.changes.withColumns(json_encoding(self._table.view).message_columns())
        started = session.kernel(self._spark).realTimeQuery(
            frame._jdf,
            self._table.name,
            self._hook.home.checkpoint_url,
            self._batch_ms,
            HookEvents(self._hook),
            self._topics,
        )
        return StreamingQuery(started)


def _options(sink: Connector) -> dict[str, str]:
    """A topic as options of Spark's connector."""
    assert sink.kafka is not None
    return {
        **client.for_spark(sink),
        "kafka.bootstrap.servers": sink.kafka.servers,
        "topic": sink.kafka.topics[0],
    }
