"""Declared schemas of streams and lookups, as Spark reads them."""

from __future__ import annotations

from typing import Any

from keyfold.engine.internal_columns import PREFIX, reserved_names
from keyfold.engine.spark_messages import plain
from keyfold.errors import BadExpression
from keyfold.plan.nodes import Source
from keyfold.plan.validate.kafka import metadata_columns


def declared_schema(source: Source) -> Any:
    """The schema of a stream's declaration; refuses types that Spark's streams don't read."""
    assert source.schema is not None
    example = "id string, amount double, at timestamp"
    schema = parse_schema(source.schema, f"stream {source.name}", source.site, example)
    short = [f.name for f in schema.fields if f.dataType.typeName() in ("char", "varchar")]
    if short:
        raise BadExpression(
            f"column {short[0]} of stream {source.name} is char or varchar, which Spark's streams don't read",
            where=source.site,
            given=source.schema,
            hint=f"{short[0]} string",
        )
    return schema


def full_schema(source: Source) -> Any:
    """The declared schema, and the columns that come from the metadata of messages."""
    schema = declared_schema(source)
    kafka = source.connector.kafka
    for name, kind in ({} if kafka is None else metadata_columns(kafka)).items():
        schema = schema.add(name, kind)
    return schema


def parse_schema(ddl: str, what: str, where: object, example: str) -> Any:
    """A schema from DDL; refuses names that are keyfold's own."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema: Any = StructType.fromDDL(ddl)
    except PySparkException as error:
        raise BadExpression(
            f"Spark can't parse the schema of {what}: {plain(str(error))}",
            where=where,
            given=ddl,
            hint=f'name and type of each column: "{example}"',
        ) from None
    own = reserved_names(schema.names)
    if own:
        raise BadExpression(
            f"column names that begin with {PREFIX} are keyfold's own", where=where, given=own[0]
        )
    return schema
