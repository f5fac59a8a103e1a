"""Formats: how the bytes of a source become rows, registered by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import RAW
from keyfold.engine.session import kernel
from keyfold.engine.sources.contract import Format
from keyfold.plan import formats
from keyfold.plan.nodes import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SparkFormat(formats.Format):
    """A format that Spark's own reader parses."""

    def configure(self, reader: Any, schema: Any) -> Any:
        if not self.text:
            return reader.schema(schema)
        return reader.schema(schema.add(RAW, "string")).option("columnNameOfCorruptRecord", RAW)

    def rows(self, frame: DataFrame, source: Source, *, reject: bool) -> DataFrame:
        return frame


class CsvFormat(SparkFormat):
    """CSV, whose files begin with a header that must name the schema's columns in order."""

    def rows(self, frame: DataFrame, source: Source, *, reject: bool) -> DataFrame:
        options = with_defaults(self, source.connector.options)
        if options_of(options)["header"].lower() != "true":
            return frame
        from pyspark.sql import DataFrame

        spark = frame.sparkSession
        return DataFrame(
            kernel(spark).checkCsvHeaders(frame._jdf, reject, source.name, dict(source.connector.options)),
            spark,
        )


READERS: Final[dict[str, type[SparkFormat]]] = {"csv": CsvFormat}
"""How the rows of a format are read where Spark's reader alone is not enough."""
FORMATS: Final[dict[str, Format]] = {
    format.name: READERS.get(format.name, SparkFormat)(**vars(format))
    for format in formats.KNOWN
    if format.text or format.columnar
}
"""The formats that are read in another way than by their names alone."""


def format_of(name: str) -> Format:
    """The format of a name; one that is not registered is left to Spark."""
    return FORMATS.get(name) or SparkFormat(name)


def with_defaults(format: Format, options: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The user's options after the format's defaults; Spark's reader takes the last of two."""
    return [*format.defaults.items(), *options]


def options_of(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Options by their names in lower case, as Spark compares them."""
    return {name.lower(): value for name, value in options}
