"""What a source and a format must do: the interfaces that a new connector implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from keyfold.plan import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class RowOrigin:
    """What the kernel needs to explain why a row does not parse, and where it was read."""

    format: str | None = None
    """The text format; None if rows are not text."""
    options: Mapping[str, str] = field(default_factory=dict)
    files: bool = False
    """Whether rows are lines of the user's files."""


class Format(Protocol):
    """How bytes become rows: the columns of a schema and, for text, the raw text of what does not parse."""

    @property
    def name(self) -> str:
        """As users write it."""

    @property
    def text(self) -> bool:
        """Whether rows are text; then `internal_columns.RAW` has the text of each row that does not parse."""

    @property
    def columnar(self) -> bool:
        """Whether a reader can skip columns, so that a table reads only those it uses."""

    @property
    def defaults(self) -> Mapping[str, str]:
        """Reader options that differ from Spark's defaults."""

    def configure(self, reader: Any, schema: Any) -> Any:
        """Sets up Spark's reader of files; `schema` has the user's columns."""

    def rows(self, frame: DataFrame, source: nodes.Source, *, reject: bool) -> DataFrame:
        """The rows of what the reader loaded.

        `reject`: input that can't be used goes to the side output; otherwise it fails the query.
        """


class StreamSource(Protocol):
    """Where the rows of a stream come from.

    The kernel orders rows of one event time by an order stamp, (input partition, position in it): a batch
    that runs again must have the same rows in the same partitions and the same order. Files are planned as
    (file, position); a partitioned log would be (partition, offset).
    """

    @property
    def endless(self) -> bool:
        """Whether input never runs out, whatever its format is; ask `connectors.never_ends`."""

    def open(self, spark: SparkSession, source: nodes.Source, *, reject: bool) -> DataFrame:
        """The stream: the user's columns and, for text formats, `internal_columns.RAW`.

        The connector's options bound how much a batch reads, as `maxFilesPerTrigger` does for files.
        """

    def origin(self, source: nodes.Source) -> RowOrigin:
        """What the kernel needs to report rows that do not parse."""

    def available(self, connector: nodes.Connector) -> int | None:
        """How many units of input exist now, read or not: files, or offsets. None if it can't be known."""
