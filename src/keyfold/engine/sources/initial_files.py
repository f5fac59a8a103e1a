"""The files that a table begins with: whether they fit its stream, and what they have, counted on their own.

They are read here in one go, beside the query that folds them, so that what is recorded of them does not
depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import TIME, visible
from keyfold.engine.sources import reader
from keyfold.engine.sources.connectors import absolute
from keyfold.engine.sources.formats import format_of, with_defaults
from keyfold.engine.sources.schemas import declared_schema
from keyfold.engine.spark_messages import plain
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import BadOption
from keyfold.plan.describe import phrases
from keyfold.plan.initial import InitialRows
from keyfold.plan.nodes import Connector, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


FileVersion = tuple[str, int, int]
"""A file's path, its size, and when it was last modified, in milliseconds."""


@dataclass(frozen=True)
class FileFacts:
    """What initial files have. `rows` are those before the boundary; times are in microseconds."""

    files: tuple[FileVersion, ...]
    rows: int
    left_out: int
    """Rows from the boundary on."""
    first: int | None
    last: int | None
    checksum: str
    """The sum of hashes of all rows before the boundary, in any order."""


def source_of(spark: SparkSession, stream: Source, live: DataFrame, initial: InitialRows) -> Source:
    """The files as a source with the columns of the stream, of which `live` has the rows."""
    types = {field.name: field.dataType.simpleString() for field in live.schema.fields}
    ddl = ", ".join(f"`{name.replace('`', '``')}` {types[name]}" for name in visible(live.columns))
    until, connector = initial.until, initial.connector
    made = replace(stream, connector=connector, schema=ddl, until=until, history_ms=None, shared=False)
    if format_of(connector.format).columnar:
        _require_columns(spark, stream, made)
    return made


def facts(spark: SparkSession, source: Source) -> FileFacts:
    """Reads the files once."""
    from pyspark.sql import functions as F

    files = list_files(spark, source.connector)
    if not files:
        raise _no_files(source)
    frame = _read_all(spark, source)
    names = visible(frame.columns)
    timed = frame
    if source.time is not None:
        timed = reader.with_event_time(frame, source.time, source.future_ms)
    time: Any = F.unix_micros(TIME) if source.time is not None else F.lit(None).cast("bigint")
    late: Any = F.lit(False)
    if source.until is not None:
        late = F.coalesce(F.col(TIME) >= F.lit(source.until), F.lit(False))
    marked = timed.select(
        time.alias("time"),
        late.alias("late"),
        F.xxhash64(F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)))).alias("hash"),
    )
    kept = F.when(~F.col("late"), F.lit(1))
    found = marked.agg(
        F.count(kept).alias("rows"),
        F.count_if("late").alias("left_out"),
        F.min(F.when(kept.isNotNull(), F.col("time"))).alias("first"),
        F.max(F.when(kept.isNotNull(), F.col("time"))).alias("last"),
        F.sum(F.when(kept.isNotNull(), F.col("hash").cast("decimal(38,0)"))).alias("checksum"),
    ).first()
    assert found is not None
    return FileFacts(
        files,
        found["rows"],
        found["left_out"],
        found["first"],
        found["last"],
        f"{int(found['checksum'] or 0) % 2**64:016x}",
    )


def refuse_overlap(spark: SparkSession, stream: Source, files: tuple[FileVersion, ...]) -> None:
    """Refuses files that the stream reads too."""
    if stream.connector.kind != "files":
        return
    of_stream = {path for path, *_ in list_files(spark, stream.connector)}
    both = [path for path, *_ in files if path in of_stream]
    if both:
        more = f" and {len(both) - 3} more" if len(both) > 3 else ""
        raise BadOption(
            f"stream {stream.name} reads files that initial= has too: their rows would be folded twice",
            where=stream.site,
            given=", ".join(both[:3]) + more,
            hint="keep them in different directories, or use a glob that leaves them out",
        )


def list_files(spark: SparkSession, connector: Connector) -> tuple[FileVersion, ...]:
    """The files that there are now; none if their directory is not there."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    reader = spark.read.format("binaryFile").options(**dict(connector.options))
    try:
        frame = reader.option("recursiveFileLookup", "true").load(absolute(connector))
    except PySparkException:
        return ()
    rows = frame.select("path", "length", F.unix_millis("modificationTime").alias("modified")).collect()
    return tuple(sorted((row["path"], row["length"], row["modified"]) for row in rows))


def _read_all(spark: SparkSession, source: Source) -> DataFrame:
    format = format_of(source.connector.format)
    schema = declared_schema(source)
    return _load(format.configure(_reader(spark, source.connector), schema), source)


def _reader(spark: SparkSession, connector: Connector) -> Any:
    options = dict(with_defaults(format_of(connector.format), connector.options))
    return spark.read.format(connector.format).options(**options).option("recursiveFileLookup", "true")


def _load(reader: Any, source: Source) -> DataFrame:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame: DataFrame = reader.load(absolute(source.connector))
        return frame
    except (PySparkException, Py4JJavaError) as error:
        if "PATH_NOT_FOUND" in str(error) or "UNABLE_TO_INFER_SCHEMA" in str(error):
            raise _no_files(source) from None
        raise BadOption(
            f"the initial files of stream {source.name} can't be read: {plain(str(error))}",
            where=source.site,
            given=phrases.connector_words(source.connector),
            hint="correct the path, the format or the options",
        ) from None


def _no_files(source: Source) -> BadOption:
    return BadOption(
        f"initial= has no files for stream {source.name}",
        where=source.site,
        given=phrases.connector_words(source.connector),
        hint="correct the path; or leave initial out, and the table begins with its stream",
    )


def _require_columns(spark: SparkSession, stream: Source, source: Source) -> None:
    """Refuses files in which declared columns of the stream are missing, or have another type."""
    wanted = declared_schema(stream if stream.schema is not None else source)
    there = {f.name.lower(): f.dataType for f in _load(_reader(spark, source.connector), source).schema}
    problems = []
    for field in wanted.fields:
        found, kind = there.get(field.name.lower()), field.dataType.simpleString()
        if found is None:
            problems.append(f"{field.name}: {kind} in the stream, missing in the files")
        elif found.simpleString() != kind:
            problems.append(f"{field.name}: {kind} in the stream, {found.simpleString()} in the files")
    if problems:
        raise BadOption(
            f"the initial files do not fit the schema of stream {stream.name}",
            where=stream.site,
            given="\n".join(problems),
            hint="write the files with the stream's columns and types, and point initial= at those",
        )


def moment(micros: int | None) -> str | None:
    """Microseconds since the epoch as text."""
    return None if micros is None else (_EPOCH + timedelta(microseconds=micros)).isoformat()


def micros(text: str) -> int:
    """The other way round."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def boundaries(stored: StoredApp) -> dict[str, int]:
    """The boundary of each table that began with initial rows: from then on it takes those of its stream."""
    found = {name: entry.boundary for name, entry in stored.tables.items()}
    return {name: micros(until) for name, until in found.items() if until is not None}
