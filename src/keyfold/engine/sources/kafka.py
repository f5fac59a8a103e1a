"""Topics of Kafka as a source: Spark reads the messages, the kernel decodes them."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.kafka import client
from keyfold.engine.kafka import connector as spark_connector
from keyfold.engine.session import kernel
from keyfold.engine.sources.contract import RowOrigin
from keyfold.engine.sources.schemas import declared_schema
from keyfold.engine.spark_errors import explain_errors
from keyfold.engine.spark_messages import plain
from keyfold.engine.storage.source_offsets import Messages
from keyfold.errors import BadExpression, BadOption
from keyfold.plan.kafka_options import is_source_option
from keyfold.plan.kafka_topics import KafkaTopics
from keyfold.plan.nodes import Connector, Source
from keyfold.plan.validate.kafka import is_one_value, key_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES_PER_BATCH: Final = 1_000_000
"""How many messages a batch reads at most, unless the connector's options say otherwise."""
_LIMIT: Final = "maxOffsetsPerTrigger"
# The kernel finds the stream of a source in a plan by it (SparkStreamOffsets.scala).
_STREAM: Final = "keyfold.stream"
# The end of a topic is not the end of a batch. Spark's arithmetic overflows with the largest number.
_UNLIMITED: Final = {_LIMIT: "1000000000000000", "minOffsetsPerTrigger": "0"}


@dataclass(frozen=True)
class TopicOffsets:
    """The offset of the first message of each partition, and that after the last."""

    first: Messages
    last: Messages
    ids: Mapping[str, str]
    """The id of each topic, which another one of the same name does not have; not of brokers before 2.8."""

    @property
    def partitions(self) -> list[str]:
        """All partitions, each as "topic-number"."""
        return [f"{topic}-{number}" for topic, numbers in self.last.items() for number in numbers]


@dataclass(frozen=True)
class KafkaSource:
    """Messages of topics: columns of the value and of metadata, or a side output."""

    endless = False

    def open(self, spark: SparkSession, source: Source, *, reject: bool) -> DataFrame:
        from pyspark.sql import DataFrame

        connector, kafka = source.connector, _topics(source.connector)
        frame = _reader(spark, connector, starting(spark, source), source.name).load()._jdf
        if kafka.unlimited:
            frame = kernel(spark).realTimeMessages(frame)
        declaration = json.dumps(_declaration(source, kafka, reject))
        with explain_errors(spark, f"stream {source.name}", str(source.site), connector.format):
            return DataFrame(kernel(spark).decodeMessages(frame, declaration), spark)

    def origin(self, source: Source) -> RowOrigin:
        # The decoder has explained what does not parse.
        return RowOrigin()

    def available(self, connector: Connector) -> int | None:
        # Spark's progress reports say how many messages are left; the brokers are not asked again.
        return None


def _declaration(source: Source, kafka: KafkaTopics, reject: bool) -> dict[str, Any]:
    """How the kernel decodes the messages (MessagesDeclaration.scala)."""
    connector = source.connector
    return {
        "stream": source.name,
        "keepRejected": reject,
        "metadata": kafka.metadata,
        "deletes": kafka.tombstones == "delete",
        "value": {
            "format": connector.format,
            "schema": declared_schema(source).jsonValue(),
            "options": {**dict(format_options(connector)), **_protobuf(source, kafka)},
            "registry": kafka.registry,
        },
        "key": None if kafka.key_format is None else _key_declaration(source, kafka),
    }


def _protobuf(source: Source, kafka: KafkaTopics) -> dict[str, str]:
    """What the kernel knows of a Protobuf message: the content of the file, which executors don't have."""
    if kafka.descriptor is None or kafka.message is None:
        return {}
    try:
        content = Path(kafka.descriptor).expanduser().read_bytes()
    except OSError as error:
        raise BadOption(
            f"the descriptor set of stream {source.name} can't be read: {error.strerror}",
            where=source.site,
            given=f"descriptor={kafka.descriptor!r}",
            hint="protoc --include_imports --descriptor_set_out=FILE writes one",
        ) from None
    return {"descriptor": base64.b64encode(content).decode(), "message": kafka.message}


def _key_declaration(source: Source, kafka: KafkaTopics) -> dict[str, Any]:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    columns = kafka.key_schema is not None and not is_one_value(kafka.key_schema)
    try:
        schema = StructType.fromDDL(str(kafka.key_schema) if columns else f"key {key_type(kafka)}")
    except PySparkException as error:
        raise BadExpression(
            f"Spark can't parse key_schema of stream {source.name}: {plain(str(error))}",
            where=source.site,
            given=kafka.key_schema,
            hint="name and type of each column: key_schema='id string, region string'",
        ) from None
    return {
        "format": kafka.key_format,
        "schema": schema.jsonValue(),
        "options": {},
        "registry": kafka.registry,
        "single": not columns,
    }


def format_options(connector: Connector) -> list[tuple[str, str]]:
    """The options that are the format's own."""
    return [(n, v) for n, v in connector.options if not is_source_option(n)]


def offsets(spark: SparkSession, connector: Connector, more: Mapping[str, str]) -> TopicOffsets:
    """The offsets that the topics have now; `more` are options."""
    with tempfile.TemporaryDirectory(prefix="keyfold-offsets-") as directory:
        frame = _reader(spark, connector, {"startingOffsets": "earliest", **_UNLIMITED, **more}).load()
        found = kernel(spark).sourceOffsets(frame._jdf, f"file://{directory}")
    return TopicOffsets(*map(json.loads, found))


def starting(spark: SparkSession, source: Source) -> dict[str, str]:
    """Where a table begins to read, as options of Spark's source."""
    start = _topics(source.connector).start
    if start in ("earliest", "latest"):
        return {"startingOffsets": start}
    if start.startswith("{"):
        now, given = offsets(spark, source.connector, {}), json.loads(start)
        _check_start(source, given, now.last)
        return {"startingOffsets": json.dumps(fill_offsets(given, now.first))}
    # Where a partition has no message since then, its next one is the first.
    moment = round(datetime.fromisoformat(start).timestamp() * 1000)
    return {"startingTimestamp": str(moment), "startingOffsetsByTimestampStrategy": "latest"}


def _check_start(source: Source, given: Messages, last: Messages) -> None:
    """Refuses offsets of partitions that are not there, and those after the end."""
    if _topics(source.connector).on_data_loss == "warn":
        return  # such as of a topic that was made again since
    for topic, partitions in given.items():
        for number, offset in partitions.items():
            end = last.get(topic, {}).get(number)
            if end is None or offset > end:
                there = f"ends at offset {end}"
                if end is None:
                    there = f"is not there: the topic has {len(last.get(topic, {}))} partitions"
                raise BadOption(
                    f"stream {source.name} can't start there: partition {number} of topic {topic} {there}",
                    where=source.site,
                    given=f"start={{{topic!r}: {{{number}: {offset}}}}}",
                    hint='an offset that exists, "earliest" or "latest"',
                )


def fill_offsets(given: Messages, first: Messages) -> dict[str, dict[str, int]]:
    """The declared offsets, with the earliest of all other partitions, since Spark wants them all."""
    return {
        topic: {number: given.get(topic, {}).get(number, -2) for number in partitions}
        for topic, partitions in first.items()
    }


def _reader(
    spark: SparkSession, connector: Connector, starting: Mapping[str, str], stream: str | None = None
) -> Any:
    spark_connector.use(spark)
    kafka = _topics(connector)
    subscribed = {"subscribe": ",".join(kafka.topics)}
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        **(subscribed if kafka.pattern is None else {"subscribePattern": kafka.pattern}),
        "includeHeaders": str("headers" in kafka.metadata).lower(),
        "failOnDataLoss": str(kafka.on_data_loss == "fail").lower(),
        **({} if stream is None else {_STREAM: stream}),
        **({} if kafka.unlimited else {_LIMIT: str(MESSAGES_PER_BATCH)}),
        **{name: value for name, value in client.for_spark(connector).items() if is_source_option(name)},
        **starting,
    }
    return spark.readStream.format("kafka").options(**options)


def _topics(connector: Connector) -> KafkaTopics:
    assert connector.kafka is not None
    return connector.kafka
