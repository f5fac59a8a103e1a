"""The rows of a lookup, read as a whole and strictly: what does not fit its schema is an error, no null."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keyfold.engine.sources.json_rows import encode
from keyfold.engine.sources.reader import TEXT_FORMATS, absolute
from keyfold.engine.spark_errors import plain
from keyfold.errors import BadExpression, BadOption, KeyfoldError
from keyfold.plan.nodes import Lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def place(lookup: Lookup) -> str:
    """A lookup as errors name it."""
    return f"lookup {lookup.name}" + (f", {lookup.site}" if lookup.site else "")


def schema_of(lookup: Lookup) -> Any:
    """The declared schema, as Spark reads it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema: Any = StructType.fromDDL(lookup.schema)
    except PySparkException as error:
        raise BadExpression(
            f"the schema of lookup {lookup.name} is not one Spark can read: {plain(str(error))}",
            where=place(lookup),
            given=lookup.schema,
            hint='name and type of each column: "sku string, price double"',
        ) from None
    own = [n for n in schema.names if n.lower().startswith("_kf_")]
    if own:
        raise BadExpression(
            "column names that begin with _kf_ are keyfold's own", where=place(lookup), given=own[0]
        )
    return schema


def frame_of(spark: SparkSession, lookup: Lookup) -> DataFrame:
    """The lookup's rows, in the order that `duplicates` goes by: files by name, then lines."""
    schema = schema_of(lookup)
    with unread(lookup):
        if lookup.connector.kind == "rows":
            return _given(spark, lookup, schema)
        if lookup.connector.format in TEXT_FORMATS:
            found = _text(spark, lookup, schema)
        else:
            found = _declared(_reader(spark, lookup), lookup, schema)
        if lookup.connector.kind != "files":
            return found
        _refuse_empty(found, lookup)
        return found if lookup.duplicates == "error" else _in_order(found)


@contextmanager
def unread(lookup: Lookup) -> Iterator[None]:
    """Turns what Spark says while a lookup is read into an error that names it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except KeyfoldError:
        raise
    except (PySparkException, Py4JJavaError) as error:
        raise BadOption(
            f"lookup {lookup.name} can't be read: {_words(error)}",
            where=place(lookup),
            given=_source(lookup),
            hint="correct the file, the path or the schema",
        ) from None


def _words(error: Any) -> str:
    """What Spark says of the file, and not that it could not read it."""
    java, chain = getattr(error, "java_exception", None) or getattr(error, "_origin", None), []
    while java is not None:
        chain.append(str(java.getMessage() or java.toString()))
        java = java.getCause()
    named = [text for text in chain if re.match(r"\[(?!FAILED_READ_FILE)[A-Z][A-Z_.0-9]+\]", text)]
    text = (named or chain or [str(error)])[-1]
    if "CSV header" in text:
        return " ".join(line.strip() for line in text.splitlines() if not line.startswith("CSV file"))
    return re.sub(r"\s*(Parse Mode: FAILFAST|To process malformed records).*$", "", plain(text))


def _source(lookup: Lookup) -> str:
    return lookup.connector.path or f"kf.{lookup.connector.kind}(...)"


def _given(spark: SparkSession, lookup: Lookup, schema: Any) -> DataFrame:
    from pyspark.sql import functions as F

    lines = [(line,) for line in encode(lookup.connector.rows or ()).split("\n")[:-1]]
    texts = spark.createDataFrame(lines, "line string").coalesce(1)
    row = F.from_json("line", schema, {"mode": "FAILFAST", "timeZone": "UTC"})
    return texts.select(row.alias("row")).select("row.*")


def _text(spark: SparkSession, lookup: Lookup, schema: Any) -> DataFrame:
    reader = spark.read.format(lookup.connector.format).options(**dict(lookup.connector.options))
    if lookup.connector.format == "csv":
        given = {key.lower() for key, _ in lookup.connector.options}
        # As for streams: a file without a header says so with header=False.
        reader = reader if "header" in given else reader.option("header", "true")
        # Else Spark takes any header for the right one.
        reader = reader.option("enforceSchema", "false")
    return reader.option("mode", "FAILFAST").schema(schema).load(absolute(lookup.connector))


def _reader(spark: SparkSession, lookup: Lookup) -> DataFrame:
    reader = spark.read.format(lookup.connector.format).options(**dict(lookup.connector.options))
    path = absolute(lookup.connector)
    return reader.load(path) if path else reader.load()


def _declared(found: DataFrame, lookup: Lookup, schema: Any) -> DataFrame:
    """A source that knows its own types must have the declared ones."""
    from pyspark.sql import functions as F

    types = {f.name.lower(): f.dataType.simpleString() for f in found.schema.fields}
    wrong = [f for f in schema.fields if types.get(f.name.lower()) != f.dataType.simpleString()]
    if wrong:
        has = types.get(wrong[0].name.lower(), "no such column")
        raise BadOption(
            f"lookup {lookup.name} has another schema: {wrong[0].name} is declared as "
            f"{wrong[0].dataType.simpleString()}, and the source has {has}",
            where=place(lookup),
            given=_source(lookup),
            hint=f"the source has {', '.join(f'{n} {t}' for n, t in types.items())}",
        )
    return found.select(*(F.col(f"`{f.name}`").alias(f.name) for f in schema.fields))


def _refuse_empty(found: DataFrame, lookup: Lookup) -> None:
    """No file, or files without a byte, are taken for ones that are being written, not for no rows."""
    plan: Any = found._jdf.queryExecution().optimizedPlan()
    if str(plan.stats().sizeInBytes()) == "0":
        raise BadOption(
            f"lookup {lookup.name} can't be read: there is no file, or nothing in it",
            where=place(lookup),
            given=_source(lookup),
            hint="put the file there whole: write it under another name, then rename it",
        )


def _in_order(found: DataFrame) -> DataFrame:
    """Spark packs files by their size."""
    from pyspark.sql import functions as F

    by = {
        "_kf_file": F.col("_metadata.file_path"),
        "_kf_start": F.col("_metadata.file_block_start"),
        "_kf_row": F.monotonically_increasing_id(),
    }
    marked = found.select("*", *(column.alias(name) for name, column in by.items()))
    return marked.coalesce(1).sortWithinPartitions(*by).drop(*by)
