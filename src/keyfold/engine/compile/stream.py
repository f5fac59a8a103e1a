"""Compiles a stream that has a log of its own, and reads that log in place of the stream's source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.context import Context, RecordedStream
from keyfold.engine.internal_columns import ARRIVAL, BATCH, POSITION, SIDE_OUTPUT, visible
from keyfold.engine.log.readers import Use
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.session import kernel
from keyfold.engine.sources import reader
from keyfold.engine.sources.connectors import source_of
from keyfold.engine.sources.file_names import QueryFiles
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.plan.nodes import Source, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OPTIONS: Final = {"datetimeRebaseMode": "CORRECTED"}
# Parquet has no such types.
_UNSTORABLE: Final = ("interval", "void")


@dataclass(frozen=True)
class CompiledStream:
    """A stream ready to be recorded: its rows and side outputs, in the order of arrival."""

    app: str
    spec: Source
    rows: DataFrame

    @property
    def name(self) -> str:
        """The stream as errors name it: `app.stream`."""
        return f"{self.app}.{self.spec.name}"

    @property
    def files(self) -> QueryFiles:
        """The file sources of the plan."""
        return QueryFiles(self.rows)

    @property
    def schema(self) -> StructType:
        """The columns that the log has."""
        from pyspark.sql.types import StructField, StructType

        own = [f for f in self.rows.schema.fields if f.name not in (SIDE_OUTPUT, ARRIVAL)]
        return StructType([StructField(f.name, f.dataType) for f in own])

    @property
    def columns(self) -> dict[str, str]:
        """The types of the user's columns."""
        return {name: self.schema[name].dataType.simpleString() for name in visible(self.schema.names)}


def compile_streams(
    spark: SparkSession,
    shared: SharedStreams,
    feeds: Mapping[str, str | Path],
    only: Collection[str] | None = None,
) -> dict[str, CompiledStream]:
    """Compiles the streams that have a log, or some of them, and starts nothing."""
    wanted = [source for source in shared if only is None or source.name in only]
    return {source.name: _compile(spark, shared, source, feeds) for source in wanted}


def _compile(
    spark: SparkSession, shared: SharedStreams, source: Source, feeds: Mapping[str, str | Path]
) -> CompiledStream:
    # What one table must not pass over, the stream must not record as rejected.
    reading = [t for t in shared.spec.tables if t.name in shared.readers[source.name]]
    reject = all(table.on_error == "reject" for table in reading)
    frame = reader.open_stream(spark, source, feeds, reject=reject)
    origin = source_of(source, feeds).origin(source)
    declaration = kernel(spark).declare(
        frame._jdf, reject, source.name, origin.format, dict(origin.options), origin.files
    )
    from pyspark.sql import DataFrame

    compiled = CompiledStream(shared.spec.name, source, DataFrame(declaration.recorded(), spark))
    _refuse_unstorable(compiled)
    return compiled


def _refuse_unstorable(stream: CompiledStream) -> None:
    for column in stream.schema.fields:
        if column.dataType.typeName() in _UNSTORABLE:
            raise BadOption(
                f"stream {stream.spec.name} can't have a log: column {column.name} has a type that files of "
                "a log can't hold",
                where=stream.spec.site,
                given=f"{column.name} {column.dataType.simpleString()}",
                hint="declare the column as string; or shared=False, without history",
            )


def recorded_streams(
    shared: SharedStreams, streams: Mapping[str, CompiledStream], table: TableSpec, home: AppHome | None
) -> dict[str, RecordedStream]:
    """The logs that a table reads in place of sources; without a home, their columns alone."""
    return {use.table: _open_log(streams[use.table], use, home) for use in shared.uses(table)}


def _open_log(stream: CompiledStream, use: Use, home: AppHome | None) -> RecordedStream:
    if home is None:
        return RecordedStream(stream.schema, use.number)
    inputs = use.directory(home.table(use.reader)).uri()
    return RecordedStream(stream.schema, use.number, home.stream_home(use.table).log_url, inputs)


def recorded_rows(context: Context, source: Source) -> DataFrame | None:
    """The rows in a stream's log, in the order of arrival; None if the table reads the source itself."""
    found = context.recorded.get(source.name)
    if found is None:
        return None
    options: dict[str, Any] = dict(_OPTIONS)
    if any(name.lower().endswith("pertrigger") for name, _ in source.connector.options):
        # The user bounds batches: each is a batch of the tables too.
        options["maxBatchesPerTrigger"] = "1"
    spark = context.spark._jsparkSession
    schema = found.schema.json()
    rows = context.api.logChanges(spark, found.log, found.inputs, found.number, schema, options)
    return context.frame(rows).drop(BATCH, POSITION)
