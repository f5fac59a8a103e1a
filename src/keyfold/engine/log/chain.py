"""Tables fed by tables: how the changes of one reach those that read it.

Each use of a table has a directory of its own in the home of the table that reads, `from/<n>-<table>`. The
upstream's batch puts its file of changes there, as a hard link under the batch's number, before its view
commits; the reader's query takes the files like any others and deletes them when it is done. Numbers only
grow, so that the newest one ever put there tells which are still to be: a batch that runs again after a
crash adds nothing twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold import private
from keyfold.engine.sources import file_names as by_name
from keyfold.engine.storage.layout import AppHome, TableHome, sync
from keyfold.errors import BadExpression
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan import nodes
from keyfold.plan.nodes import AppSpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

SIDE_OUTPUT: Final = "_kf_side"
PREVIOUS: Final = "_kf_prev"
# An entry of the log in which the source writes down what it has read.
_READ: Final = re.compile(
    rb'"path":":/from/(\d+)-[^/"]*/(\d+)\.parquet","timestamp":\d+,"size":\d+,"batchId":(\d+)'
)


@dataclass(frozen=True)
class Use:
    """One place in a table's declaration that reads the changes of another table."""

    reader: str
    number: int
    table: str

    def directory(self, reader: TableHome) -> Path:
        """Where the reader finds the other's changes."""
        return reader.incoming / f"{self.number}-{self.table}"


def uses(spec: TableSpec) -> list[Use]:
    """The other tables whose changes a table reads; one that is met as of event time is not among them."""
    return [
        Use(spec.name, number, node.table)
        for number, node in enumerate(nodes.reads(spec.input))
        if isinstance(node, nodes.Changes) or node.as_of == "arrival"
    ]


def readers(spec: AppSpec, table: str) -> list[Use]:
    """All uses of a table in the app."""
    return [use for reader in spec.tables for use in uses(reader) if use.table == table]


def frame(context: Any, table: str, use: int) -> DataFrame:
    """The changes of a table as a stream: `_op`, its columns, `_kf_prev` if sent, `_kf_batch`, `_kf_row`.

    `use` is the position of the node that reads it in `nodes.reads`. Batch and row give the order of changes.
    """
    spec: TableSpec = context.spec
    schema = readable(context.upstream[table].schema, table, context.where(f"changes of {table}", spec.site))
    directory, within = _nowhere(context.spark), None
    if context.home is not None:
        within = context.home.path
        directory = Use(spec.name, use, table).directory(context.home)
        private.directory(directory)
    found = context.spark.readStream.schema(schema).options(**_OPTIONS).parquet(str(directory))
    found = by_name.named(found, within=within)
    file = found.metadataColumn("_metadata")
    batch = file.getField("file_name").substr(1, 12).cast("bigint")
    columns: DataFrame = found.select(
        "*", batch.alias("_kf_batch"), file.getField("row_index").alias("_kf_row")
    )
    return columns


_OPTIONS: Final = {
    "cleanSource": "delete",
    # Whatever the session says: dates before 1582 are written as they are.
    "datetimeRebaseMode": "CORRECTED",
}


def _nowhere(spark: Any) -> Path:
    """An empty directory, for a declaration that is only checked; Spark removes it when it stops."""
    return private.directory(Path(spark.sparkContext._temp_dir) / "keyfold-nowhere")


def readable(schema: StructType, table: str, where: object) -> StructType:
    """The schema under which Spark reads a table's files of changes."""
    from pyspark.sql.types import StructField, StructType

    months = [f.name for f in schema.fields if "interval year" in _kind(f) or "interval month" in _kind(f)]
    if months:
        raise BadExpression(
            f"column {months[0]} of {table} is an interval of months, which other tables can't read",
            where=where,
            given=f"{months[0]} {schema[months[0]].dataType.simpleString()}",
            hint=f"a number in {table}: cast({months[0]} as int)",
        )
    return StructType([StructField(f.name, f.dataType) for f in schema.fields if f.name != SIDE_OUTPUT])


def _kind(field: Any) -> str:
    return str(field.dataType.simpleString())


def plain(kind: DataType) -> DataType:
    """The type as Parquet holds it: it knows no type of a bare null, and takes any for it."""
    from pyspark.sql import types as T

    if isinstance(kind, T.NullType):
        return T.ByteType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(plain(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(plain(kind.keyType), plain(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, plain(f.dataType)) for f in kind.fields])
    return kind


class Links:
    """Where the changes of one table go, and up to which batch they are there already."""

    def __init__(self, upto: Iterable[tuple[Path, int]] = ()) -> None:
        self._upto = dict(upto)

    def __bool__(self) -> bool:
        return bool(self._upto)

    def put(self, file: Path, batch: int) -> None:
        """Gives a batch's changes to all readers that don't have them."""
        for directory, upto in self._upto.items():
            if batch > upto:
                reached(FaultPoint.READER_DUE, file=file, reader=directory)
                os.link(file, directory / file.name)
                reached(FaultPoint.READER_GIVEN, file=file, reader=directory)
                sync(directory)
                self._upto[directory] = batch


def read_log(home: TableHome, number: int) -> dict[int, tuple[int, int]]:
    """The batches of another table that a use has read or will read: which source of the reader's query it
    was, and its place in that source's log."""
    found: dict[int, tuple[int, int]] = {}
    for log in home.checkpoint.glob("sources/[0-9]*"):
        for entry in log.glob("[0-9]*"):
            for use, batch, at in logged(entry.read_bytes()):
                if use == number:
                    found[batch] = int(log.name), at
    return found


def logged(entry: bytes) -> list[tuple[int, int, int]]:
    """The files of changes in an entry of Spark's log: use, batch and place in the log."""
    return [(int(use), int(batch), int(at)) for use, batch, at in _READ.findall(entry)]


def files(directory: Path) -> dict[int, Path]:
    """The files of changes in a directory, by batch."""
    return {int(file.stem): file for file in directory.glob("[0-9]*.parquet")}


def sent(use: Use, place: AppHome) -> int:
    """The newest batch that was ever put where a use reads; -1 before the first."""
    home = place.table(use.reader)
    return max([*files(use.directory(home)), *read_log(home, use.number)], default=-1)


def tidy(use: Use, home: TableHome, numbers: Iterable[int]) -> None:
    """Removes files that Spark was not left the time to remove. Those of the newest committed batch stay: its
    commit may be lost with the machine's power, and the batch that then runs again would find nothing.

    `numbers`: those of the reader's sources, by their positions in Spark's log of offsets.
    """
    committed = home.committed()
    upto = {} if committed is None else home.file_logs(committed - 1, numbers)
    log = read_log(home, use.number)
    for batch, file in files(use.directory(home)).items():
        if batch in log and log[batch][1] <= upto.get(log[batch][0], -1):
            file.unlink()
