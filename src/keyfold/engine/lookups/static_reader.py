"""Reads a lookup whole and strictly: a value that does not fit the schema is an error, not a null."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keyfold.engine.internal_columns import BLOCK, FILE, POSITION
from keyfold.engine.sources.connectors import absolute
from keyfold.engine.sources.formats import format_of, options_of
from keyfold.engine.sources.json_rows import encode
from keyfold.engine.sources.schemas import parse_schema
from keyfold.engine.spark_errors import messages
from keyfold.engine.spark_messages import plain
from keyfold.errors import BadOption, KeyfoldError
from keyfold.plan.nodes import Lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def home(lookup: Lookup) -> str:
    """A lookup as errors name it."""
    return f"lookup {lookup.name}" + (f", {lookup.site}" if lookup.site else "")


def schema_of(lookup: Lookup) -> Any:
    """The declared schema, as Spark reads it."""
    return parse_schema(lookup.schema, f"lookup {lookup.name}", home(lookup), "sku string, price double")


def frame_of(spark: SparkSession, lookup: Lookup) -> DataFrame:
    """The lookup's rows, in the order that `duplicates` goes by: files by name, then lines."""
    schema = schema_of(lookup)
    with explain_errors(lookup):
        if lookup.connector.kind == "rows":
            return _inline(spark, lookup, schema)
        if format_of(lookup.connector.format).text:
            found = _text(spark, lookup, schema)
        else:
            found = _select_declared(_reader(spark, lookup), lookup, schema)
        if lookup.connector.kind != "files":
            return found
        _refuse_empty(found, lookup)
        return found if lookup.duplicates == "error" else _in_order(found)


@contextmanager
def explain_errors(lookup: Lookup) -> Iterator[None]:
    """Turns an error of Spark while a lookup is read into one that names the lookup."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except KeyfoldError:
        raise
    except (PySparkException, Py4JJavaError) as error:
        raise BadOption(
            f"lookup {lookup.name} can't be read: {_reason(error)}",
            where=home(lookup),
            given=_source(lookup),
            hint="correct the file, the path or the schema",
        ) from None


def _reason(error: Any) -> str:
    """What is wrong with the file, rather than that it could not be read."""
    causes = messages(error)
    named = [text for text in causes if re.match(r"\[(?!FAILED_READ_FILE)[A-Z][A-Z_.0-9]+\]", text)]
    text = (named or causes)[-1]
    if "CSV header" in text:
        return " ".join(line.strip() for line in text.splitlines() if not line.startswith("CSV file"))
    return re.sub(r"\s*(Parse Mode: FAILFAST|To process malformed records).*$", "", plain(text))


def _source(lookup: Lookup) -> str:
    return lookup.connector.path or f"kf.{lookup.connector.kind}(...)"


def _inline(spark: SparkSession, lookup: Lookup, schema: Any) -> DataFrame:
    from pyspark.sql import functions as F

    lines = [(line,) for line in encode(lookup.connector.rows or ()).split("\n")[:-1]]
    texts = spark.createDataFrame(lines, "line string").coalesce(1)
    row = F.from_json("line", schema, {"mode": "FAILFAST", "timeZone": "UTC"})
    return texts.select(row.alias("row")).select("row.*")


def _text(spark: SparkSession, lookup: Lookup, schema: Any) -> DataFrame:
    format, options = format_of(lookup.connector.format), lookup.connector.options
    defaults = {name: value for name, value in format.defaults.items() if name not in options_of(options)}
    reader = spark.read.format(format.name).options(**defaults, **dict(options))
    if format.name == "csv":
        # Spark would otherwise accept any header.
        reader = reader.option("enforceSchema", "false")
    return reader.option("mode", "FAILFAST").schema(schema).load(absolute(lookup.connector))


def _reader(spark: SparkSession, lookup: Lookup) -> DataFrame:
    reader = spark.read.format(lookup.connector.format).options(**dict(lookup.connector.options))
    path = absolute(lookup.connector)
    return reader.load(path) if path else reader.load()


def _select_declared(found: DataFrame, lookup: Lookup, schema: Any) -> DataFrame:
    """The declared columns of a source that has types of its own, which must be the declared ones."""
    from pyspark.sql import functions as F

    types = {f.name.lower(): f.dataType.simpleString() for f in found.schema.fields}
    wrong = [f for f in schema.fields if types.get(f.name.lower()) != f.dataType.simpleString()]
    if wrong:
        has = types.get(wrong[0].name.lower(), "no such column")
        raise BadOption(
            f"lookup {lookup.name} has a different schema: {wrong[0].name} is declared as "
            f"{wrong[0].dataType.simpleString()}, and the source has {has}",
            where=home(lookup),
            given=_source(lookup),
            hint=f"the source has {', '.join(f'{n} {t}' for n, t in types.items())}",
        )
    return found.select(*(F.col(f"`{f.name}`").alias(f.name) for f in schema.fields))


def _refuse_empty(found: DataFrame, lookup: Lookup) -> None:
    """Refuses a missing or empty file: it is more likely being written than meant to be empty."""
    plan: Any = found._jdf.queryExecution().optimizedPlan()
    if str(plan.stats().sizeInBytes()) == "0":
        raise BadOption(
            f"lookup {lookup.name} can't be read: the file is missing or empty",
            where=home(lookup),
            given=_source(lookup),
            hint="create the file atomically: write it under another name, then rename it",
        )


def _in_order(found: DataFrame) -> DataFrame:
    """The rows in the order of files and lines; Spark would pack files by size."""
    from pyspark.sql import functions as F

    by = {
        FILE: F.col("_metadata.file_path"),
        BLOCK: F.col("_metadata.file_block_start"),
        POSITION: F.monotonically_increasing_id(),
    }
    marked = found.select("*", *(column.alias(name) for name, column in by.items()))
    return marked.coalesce(1).sortWithinPartitions(*by).drop(*by)
