"""How a sink encodes a table's changes; for Avro, its schemas are registered under the topic's subjects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.kafka import schema_registry
from keyfold.engine.kafka.messages import Encoder, MessageEncoding, json_of, key_encoding
from keyfold.engine.session import kernel
from keyfold.engine.spark_errors import explain_errors
from keyfold.kernel.api import java_column
from keyfold.plan.nodes import Connector

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def sink_encoding(spark: SparkSession, table: Compiled, sink: Connector) -> MessageEncoding:
    """How a sink writes the table's changes; its schemas are registered."""
    assert sink.kafka is not None
    view = table.view
    keys = [column.name for column in view.keys]
    if sink.kafka.key_format == "avro":
        key = "avro", _register(spark, table, sink, keys, "key")
    else:
        key = key_encoding(view, sink.kafka.key_format)
    if sink.format != "avro":
        return MessageEncoding(view, *key, json_of)
    columns = [*keys, *(column.name for column in view.columns)]
    return MessageEncoding(view, *key, _register(spark, table, sink, columns, "value"))


def _register(
    spark: SparkSession, table: Compiled, sink: Connector, columns: list[str], part: str
) -> Encoder:
    """Registers the schema of columns under `<topic>-key` or `<topic>-value`."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    assert sink.kafka is not None
    assert sink.kafka.registry is not None
    spec, topic = table.spec, sink.kafka.topics[0]
    fields = StructType([table.changes.schema[name] for name in columns])
    name = spec.name if part == "value" else f"{spec.name}_key"
    full_name = f"{spec.app}.{spec.name}"
    with explain_errors(spark, "a sink in Avro", f"{full_name}, {spec.site}", f"topic {topic}"):
        schema = kernel(spark).avroSchema(fields.json(), name, spec.app, len(table.view.keys))
    number = schema_registry.register(sink.kafka.registry, f"{topic}-{part}", schema, full_name)

    def encode(names: list[str]) -> Column:
        row = F.struct(*(F.col(f"`{one}`") for one in names))
        return Column(kernel(spark).avroMessage(java_column(row), schema, number))

    return encode
