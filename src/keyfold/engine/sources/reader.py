"""Sources as streaming DataFrames: the user's columns, and keyfold's own beside them.

`_kf_raw` is the text of a row that does not parse, `_kf_control` marks rows that only move event time,
`_kf_time` is the event time, null if it is one that can't be; `_kf_given` is what it was then. The kernel
knows these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.session import kernel
from keyfold.engine.sources import file_names, injected_rows
from keyfold.engine.spark_errors import plain
from keyfold.errors import BadExpression, BadOption
from keyfold.plan.nodes import Connector, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT_FORMATS = ("json", "csv")


def read(
    spark: SparkSession,
    source: Source,
    feeds: Mapping[str, Path],
    watermark: bool,
    control: Path | None = None,
    *,
    joins: bool = False,
    keep: bool = True,
) -> DataFrame:
    """The stream, with its hidden columns; with `watermark`, event time moves Spark's watermark.

    `control`: a directory of rows that only move it. `joins`: whether it is read to be joined. `keep`:
    whether unusable files go to the rejected rows, or stop the query.
    """
    frame = _fed(spark, source, feeds[source.name]) if source.name in feeds else _own(spark, source, keep)
    if source.time is None:
        return frame
    frame = timed(frame, _time_column(source, frame), source.future_ms)
    if not watermark:
        return frame
    if control is not None:
        frame = injected_rows.with_control(frame, control)
    # Spark's join drops what is as old as the watermark, and late is only what is older.
    return frame.withWatermark("_kf_time", f"{source.late_ms + joins} milliseconds")


def timed(frame: DataFrame, column: str, future_ms: int | None) -> DataFrame:
    """The frame with the event time that is in a column.

    Without a time that can be used a row moves no watermark; the kernel then rejects it.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.classic.column import Column

    given = F.col(f"`{column}`")
    usable: Any = Column(
        kernel(frame.sparkSession).validEventTime(given._jc, -1 if future_ms is None else future_ms)
    )
    if "_kf_control" in frame.columns:
        usable = F.when(F.col("_kf_control"), given).otherwise(usable)
    return frame.withColumns({"_kf_given": given, "_kf_time": usable})


def schema_of(spark: SparkSession, source: Source) -> Any:
    """The schema of the user's columns; names that begin with _kf_ are keyfold's own."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if source.schema is None:
        return _load(_reader(spark, source.connector), source).schema
    try:
        schema: Any = StructType.fromDDL(source.schema)
    except PySparkException as error:
        raise BadExpression(
            f"the schema of stream {source.name} is not one Spark can read: {plain(str(error))}",
            where=source.site,
            given=source.schema,
            hint='name and type of each column: "id string, amount double, at timestamp"',
        ) from None
    short = [f.name for f in schema.fields if f.dataType.typeName() in ("char", "varchar")]
    if short:
        raise BadExpression(
            f"column {short[0]} of stream {source.name} is char or varchar, which Spark's streams don't read",
            where=source.site,
            given=source.schema,
            hint=f"{short[0]} string",
        )
    own = [n for n in schema.names if n.lower().startswith("_kf_")]
    if own:
        raise BadExpression(
            "column names that begin with _kf_ are keyfold's own", where=source.site, given=own[0]
        )
    return schema


def _own(spark: SparkSession, source: Source, keep: bool) -> DataFrame:
    connector = source.connector
    _checked(connector, source)
    reader = _reader(spark, connector)
    if connector.kind == "rate":
        return _load(reader, source)
    schema = schema_of(spark, source)
    if connector.format in TEXT_FORMATS and connector.kind in ("files", "rows"):
        schema = schema.add("_kf_raw", "string")
        reader = reader.option("columnNameOfCorruptRecord", "_kf_raw")
    frame = _load(reader, source, None if source.schema is None else schema)
    if _has_headers(connector):
        from pyspark.sql import DataFrame

        headed = kernel(spark).checkCsvHeaders(frame._jdf, keep, source.name, dict(connector.options))
        frame = DataFrame(headed, spark)
    return frame


@dataclass(frozen=True)
class Texts:
    """How texts become rows: the reader's format (None if rows are no texts), its options, if of files."""

    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    files: bool = False


NO_TEXTS = Texts()


def texts(source: Source, feeds: Mapping[str, Path]) -> Texts:
    """How the texts of a stream become rows."""
    connector = source.connector
    if source.name in feeds:
        return Texts("json")
    if connector.kind not in ("files", "rows"):
        return NO_TEXTS
    format = connector.format if connector.format in TEXT_FORMATS else None
    return Texts(format, dict(connector.options), connector.kind == "files")


def _has_headers(connector: Connector) -> bool:
    if connector.kind != "files" or connector.format != "csv":
        return False
    given = {key.lower(): value for key, value in connector.options}
    return given.get("header", "true").lower() == "true"


def _checked(connector: Connector, source: Source) -> None:
    """Options that would drop rows in silence are refused."""
    taken = {
        "mode": "rows that don't parse are always kept as rejected",
        "columnnameofcorruptrecord": "it is keyfold's own",
        "ignoremissingfiles": "a file that can't be found stops the table, which names it",
        "ignorecorruptfiles": "a file that can't be read stops the table, which names it",
    }
    harmless = ("PERMISSIVE", "FALSE")
    for key, value in connector.options:
        if connector.kind == "files" and key.lower() in taken and value.upper() not in harmless:
            raise BadOption(
                f"{key} can't be set: {taken[key.lower()]}", where=source.site, given=f"{key}={value}"
            )


def _load(reader: Any, source: Source, schema: Any = None, path: str | None = None) -> DataFrame:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    deep = {key.lower(): value for key, value in source.connector.options}.get("recursivefilelookup", "false")
    own = source.connector.kind != "spark" and schema is not None
    try:
        reader = reader if schema is None else reader.schema(schema)
        # Else Spark would look for columns in the names of directories, and refuse what it finds in some.
        reader = reader.option("recursiveFileLookup", "true") if own else reader
        place = path or absolute(source.connector)
        frame: DataFrame = reader.load(place) if place else reader.load()
    except (PySparkException, Py4JJavaError) as error:
        said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
        raise BadOption(
            f"stream {source.name} can't be read: {plain(said)}",
            where=source.site,
            given=source.connector.path or source.connector.format,
            hint="correct the path, format or options, or create the directory before the app starts",
        ) from None
    return file_names.named(frame, stream="" if path else source.name, recursive=deep if own else None)


def absolute(connector: Connector) -> str | None:
    """Paths are meant from where Python is, which may have changed since the JVM was started there."""
    path = connector.path
    if path is None or connector.kind != "files" or ":" in path.partition("/")[0]:
        return path
    return str(Path.cwd() / path)


def _reader(spark: SparkSession, connector: Connector) -> Any:
    reader = spark.readStream.format(connector.format)
    if connector.kind == "files" and connector.format == "csv":
        # A file without a header says so with header=False.
        reader = reader.option("header", "true")
    for key, value in connector.options:
        reader = reader.option(key, value)
    return reader


def _fed(spark: SparkSession, source: Source, directory: Path) -> DataFrame:
    schema = schema_of(spark, source).add("_kf_raw", "string").add("_kf_control", "boolean")
    reader = spark.readStream.format("json").options(columnNameOfCorruptRecord="_kf_raw", timeZone="UTC")
    return _load(reader, source, schema, str(directory))


def _time_column(source: Source, frame: DataFrame) -> str:
    from keyfold.errors import did_you_mean

    kinds = {name.lower(): (name, kind) for name, kind in frame.dtypes}
    assert source.time is not None
    found = kinds.get(source.time.lower())
    if found is None:
        raise BadExpression(
            f"stream {source.name} has no column {source.time} to take the time from",
            where=source.site,
            given=f"time={source.time!r}",
            hint=did_you_mean(source.time, [n for n, _ in frame.dtypes if not n.startswith("_kf_")]),
        )
    if found[1] != "timestamp":
        raise BadExpression(
            f"the time of stream {source.name} must be a timestamp",
            where=source.site,
            given=f"{found[0]} {found[1]}",
            hint="declare the column as timestamp, or cast it in a stream of its own",
        )
    return found[0]
