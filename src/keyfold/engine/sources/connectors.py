"""The sources: files, rows of a declaration, generated rows, Kafka, and whatever Spark can stream."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import CONTROL, RAW
from keyfold.engine.sources import file_names
from keyfold.engine.sources.contract import RowOrigin, StreamSource
from keyfold.engine.sources.formats import format_of, options_of, with_defaults
from keyfold.engine.sources.kafka import KafkaSource
from keyfold.engine.sources.schemas import declared_schema, full_schema
from keyfold.engine.spark_messages import plain
from keyfold.errors import BadOption
from keyfold.plan import formats
from keyfold.plan.nodes import Connector, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Options with which Spark would silently drop rows, and why they can't be set.
_REFUSED: Final = {
    "mode": "rows that don't parse are always kept as rejected",
    "columnnameofcorruptrecord": "it is keyfold's own",
    "ignoremissingfiles": "a file that can't be found stops the table, which names it",
    "ignorecorruptfiles": "a file that can't be read stops the table, which names it",
}
_HARMLESS: Final = ("PERMISSIVE", "FALSE")


@dataclass(frozen=True)
class FileSource:
    """Files of a directory or glob, known by their paths below it; `user`: whether they are the user's."""

    user: bool = True
    endless = False

    def open(self, spark: SparkSession, source: Source, *, reject: bool) -> DataFrame:
        connector = source.connector
        if self.user:
            _refuse_lossy(source)
        format = format_of(connector.format)
        reader = format.configure(reader_of(spark, connector), declared_schema(source))
        deep = options_of(connector.options).get("recursivefilelookup", "false")
        # Spark would otherwise take directory names such as `x=1` for columns.
        frame = load(reader.option("recursiveFileLookup", "true"), source, absolute(connector))
        named = file_names.name_files(frame, stream=source.name, recursive=deep)
        return format.rows(named, source, reject=reject)

    def origin(self, source: Source) -> RowOrigin:
        format = format_of(source.connector.format)
        return RowOrigin(format.name if format.text else None, dict(source.connector.options), self.user)

    def available(self, connector: Connector) -> int | None:
        # Other file systems would have to be listed through Spark, which is busy with the batch.
        if not self.user or "://" in (connector.path or ""):
            return None
        return sum(1 for _ in _files(connector.path or ""))


@dataclass(frozen=True)
class FedSource:
    """JSON lines that are put into a directory in place of a stream's own source: tests, `kf.rows`."""

    directory: str | Path
    endless = False

    def open(self, spark: SparkSession, source: Source, *, reject: bool) -> DataFrame:
        schema = full_schema(source) if source.schema else _own_schema(spark, source)
        reader = spark.readStream.format("json").options(columnNameOfCorruptRecord=RAW, timeZone="UTC")
        reader = reader.schema(schema.add(RAW, "string").add(CONTROL, "boolean"))
        fed = on_disk(self.directory) if isinstance(self.directory, Path) else self.directory
        frame = load(reader.option("recursiveFileLookup", "true"), source, fed)
        return file_names.name_files(frame, recursive="false")

    def origin(self, source: Source) -> RowOrigin:
        return RowOrigin("json")

    def available(self, connector: Connector) -> int | None:
        return None


@dataclass(frozen=True)
class SparkSource:
    """Any source that Spark can stream, under the name of its format."""

    endless = False
    fixed_schema: bool = False
    """Whether Spark refuses a schema, because the source has but one."""

    def open(self, spark: SparkSession, source: Source, *, reject: bool) -> DataFrame:
        reader = reader_of(spark, source.connector)
        if source.schema is not None and not self.fixed_schema:
            reader = reader.schema(declared_schema(source))
        return file_names.name_files(load(reader, source, source.connector.path), stream=source.name)

    def origin(self, source: Source) -> RowOrigin:
        return RowOrigin()

    def available(self, connector: Connector) -> int | None:
        return None


SOURCES: Final[dict[str, StreamSource]] = {
    "files": FileSource(),
    "rows": FileSource(user=False),
    "rate": SparkSource(fixed_schema=True),
    "spark": SparkSource(),
    "kafka": KafkaSource(),
}
"""Sources by kind."""


def never_ends(connector: Connector) -> bool:
    """Whether the input of a source never runs out, so that its stream can't be drained."""
    return formats.find_format(connector.format).endless or SOURCES[connector.kind].endless


def source_of(source: Source, feeds: Mapping[str, str | Path]) -> StreamSource:
    """Where the rows of a stream come from; `feeds` has directories that replace streams' own sources."""
    directory = feeds.get(source.name)
    return SOURCES[source.connector.kind] if directory is None else FedSource(directory)


def reader_of(spark: SparkSession, connector: Connector) -> Any:
    """Spark's stream reader with the connector's format and options."""
    reader = spark.readStream.format(connector.format)
    options = list(connector.options)
    if connector.kind == "files":
        options = with_defaults(format_of(connector.format), options)
    for name, value in options:
        reader = reader.option(name, value)
    return reader


def load(reader: Any, source: Source, path: str | None) -> DataFrame:
    """Loads a stream; if Spark refuses to, the error names the stream."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame: DataFrame = reader.load(path) if path else reader.load()
    except (PySparkException, Py4JJavaError) as error:
        java = error.java_exception if isinstance(error, Py4JJavaError) else None
        message = str(error) if java is None else str(java.getMessage())
        raise BadOption(
            f"stream {source.name} can't be read: {plain(message)}",
            where=source.site,
            given=source.connector.path or source.connector.format,
            hint="correct the path, format or options, or create the directory before the app starts",
        ) from None
    return frame


def absolute(connector: Connector) -> str | None:
    """The connector's path with its scheme, since Hadoop's default file system may be another than the disk.

    Relative ones start at Python's directory, which may no longer be the JVM's.
    """
    path = connector.path
    if path is None or connector.kind != "files" or ":" in path.partition("/")[0]:
        return path
    return on_disk(Path(path))


def on_disk(path: Path) -> str:
    """A path of this machine for Spark, which may contain any character."""
    return f"file:{Path.cwd() / path}"


def _own_schema(spark: SparkSession, source: Source) -> Any:
    """The schema that a source brings with it."""
    return load(reader_of(spark, source.connector), source, absolute(source.connector)).schema


def _refuse_lossy(source: Source) -> None:
    for name, value in source.connector.options:
        reason = _REFUSED.get(name.lower())
        if reason is not None and value.upper() not in _HARMLESS:
            raise BadOption(f"{name} can't be set: {reason}", where=source.site, given=f"{name}={value}")


def _files(path: str) -> Iterator[str]:
    """The files that Spark would read: not hidden, in directories of any depth."""
    for found in glob.iglob(path):
        if os.path.isfile(found):
            yield found
        for directory, below, names in os.walk(found):
            below[:] = [name for name in below if not name.startswith((".", "_"))]
            yield from (os.path.join(directory, name) for name in names if not name.startswith((".", "_")))
