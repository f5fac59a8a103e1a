"""`history=kf.kafka(...)`: a compacted topic that has the latest change of each key of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.kafka_sink import KafkaSinkFollower
from keyfold.engine.kafka import client, topics
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "history"


def history_follower(spark: SparkSession, home: TableHome, table: Compiled) -> KafkaSinkFollower:
    """Follows the table from its first batch on; the topic is created if it does not exist."""
    connector = table.spec.history_topic
    assert connector is not None
    assert connector.kafka is not None
    if not StoredFile(home.storage, f"sinks/{_NAME}.json").exists():
        _require_all(table, TableLog(home.log_files))
    topics.require_compacted(client.for_python(connector), connector.kafka.topics[0])
    return KafkaSinkFollower(spark, home, table, _NAME, connector, -1)


def _require_all(table: Compiled, log: TableLog) -> None:
    """Refuses a table whose first changes are gone: the topic would lack keys."""
    batches = log.batches()
    first = log.find(batches[0]) if batches else None
    if first is None or (first.batch == 0 and all(found.has_its_changes for found in log.after(-1))):
        return
    raise RunError(
        "the topic would not have all rows: the table's first changes are no longer in its log",
        app=table.spec.app,
        table=table.spec.name,
        given=f"history={connector_name(table)}",
        hint="declare it before the table's first start, or `keyfold reset` the table",
    )


def connector_name(table: Compiled) -> str:
    """The topic, for an error."""
    topic = table.spec.history_topic
    return "" if topic is None or topic.kafka is None else topic.kafka.subject
