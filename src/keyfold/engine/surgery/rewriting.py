"""Writes a table's state anew through a transform, on a copy, and puts that in the place of the old one.

`rewritten` makes the copy; nothing depends on it until `switch` commits what takes whose place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.operations.checkpoint_copy import copied_checkpoint, working_copy
from keyfold.engine.operations.files import copy_files
from keyfold.engine.operations.kinds import REWRITE
from keyfold.engine.recovery.view_following import bring_up_view
from keyfold.engine.state.digest import of_rows, stored
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadOption, HomeUnusable
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[[int, "DataFrame"], "DataFrame"]
"""From the number of an operator and all rows of its state to those of the new state.

Rows have `partition_key`, `key_bytes`, `value_bytes` and `column_family_name`, and must keep these columns;
a row goes to the partition of its `partition_key`. Operator 0 is that of the table itself.
"""


@dataclass(frozen=True)
class Rewritten:
    """A copy of a checkpoint that has one batch more, which reads no rows and has another state."""

    checkpoint: SparkCheckpoint
    before: int
    batch: int


def work(table: str) -> str:
    """The directory of what takes the place of a table's files."""
    return f"{REWRITE.name}/{table}"


def require_stopped_between_batches(home: AppHome, table: str) -> int:
    """The last batch of a table, which must be committed."""
    name, table_home = f"{home.path.name}.{table}", home.table(table)
    committed, begun = table_home.committed(), table_home.begun()
    if begun != committed:
        raise BadOption(
            f"batch {begun} of {name} is not finished",
            given=table,
            hint="start the app, let it finish the batch, and stop it (keyfold run APP.py --drain)",
        )
    if committed is None:
        raise BadOption(f"{name} has no state yet", given=table, hint="start the app first")
    return committed


def rewritten(spark: SparkSession, home: AppHome, table: str, transform: Transform) -> Rewritten:
    """Makes a copy of a table's checkpoint whose last batch has another state; the caller holds the home."""
    batch = require_stopped_between_batches(home, table)
    copy = working_copy(home, table, work(table))
    return Rewritten(copy, batch, rewrite(spark, copy, batch, transform))


def rewrite(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int, transform: Transform) -> int:
    """Adds a batch with another state to a checkpoint; returns its number."""
    storage, partitions = checkpoint.storage, checkpoint.partitions()
    assert partitions is not None
    stores = _stores(spark, checkpoint, batch)
    frames = [transform(operator, stored(spark, storage, operator, batch, name)) for operator, name in stores]
    written = _write(spark, checkpoint, frames, partitions)
    for (operator, name), frame in zip(stores, frames, strict=True):
        _verify(storage.uri(), operator, frame, stored(spark, storage, operator, written, name))
    return written


def resize(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int, partitions: int) -> int:
    """Adds a batch with the same state in another number of partitions; returns its number."""
    stores = _stores(spark, checkpoint, batch)
    frames = [stored(spark, checkpoint.storage, operator, batch, name) for operator, name in stores]
    return _write(spark, checkpoint, frames, partitions)


def _stores(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int) -> list[tuple[int, str]]:
    """The operators, and the names of their stores."""
    found = session.kernel(spark).stateStores(spark._jsparkSession, _path(checkpoint), batch)
    return [(operator, name) for operator, name in json.loads(found)]


def _write(
    spark: SparkSession, checkpoint: SparkCheckpoint, frames: Sequence[DataFrame], partitions: int
) -> int:
    rows = [frame._jdf for frame in frames]
    kernel = session.kernel(spark)
    return kernel.rewriteState(spark._jsparkSession, _path(checkpoint), rows, partitions)


def _path(checkpoint: SparkCheckpoint) -> str:
    """Spark takes a path of a local disk without its scheme, and names state files by it."""
    return checkpoint.storage.uri().removeprefix("file://")


def _verify(uri: str, operator: int, wanted: DataFrame, found: DataFrame) -> None:
    """Reads back what was written: the number of rows and a checksum over all of them."""
    if (given := of_rows(wanted, operator)) != (read := of_rows(found, operator)):
        raise HomeUnusable(
            f"operator {operator} of {uri} was not written as it should have been; nothing was changed",
            given=f"{read}, and it should be {given}",
            hint="this is a defect, please report it",
        )


def switch(
    home: AppHome,
    entry: Mapping[str, Any],
    tables: Sequence[str],
    plan: Mapping[str, Any] | None = None,
) -> None:
    """Puts what is in the directories `work` of tables in the place of the old files, for certain.

    `checkpoint/` there replaces the table's, files below `log/` are added to its log. `entry`: for the audit
    log. `plan`: what app.json is afterwards, if it changes.
    """
    reached(FaultPoint.REWRITE_READY, tables=tables)
    document = {"entry": entry, "tables": list(tables), "plan": plan}
    REWRITE.commit(home, document)
    reached(FaultPoint.REWRITE_RECORDED, tables=tables)
    REWRITE.finish(home)


def carry_out(home: AppHome, document: dict[str, Any]) -> dict[str, Any]:
    """Switches the tables, and writes app.json if it changes."""
    for table in document["tables"]:
        _replace_checkpoint(home, table)
        _add_to_log(home, table)
        reached(FaultPoint.REWRITE_TABLE_DONE, table=table)
    if document["plan"] is not None:
        home.write_plan(document["plan"])
    entry: dict[str, Any] = document["entry"]
    return entry


def _replace_checkpoint(home: AppHome, table: str) -> None:
    source, target = f"{work(table)}/checkpoint", f"tables/{table}/checkpoint"
    files = [file.name for file in home.storage.files(source)]
    if files:
        home.storage.delete(target)
        copied_checkpoint(home.storage, source, target, files)


def _add_to_log(home: AppHome, table: str) -> None:
    source, target = f"{work(table)}/log", f"tables/{table}/log"
    there = {file.name for file in home.storage.files(target)}
    added = [file.name for file in home.storage.files(source)]
    files = [name for name in added if name not in there]
    # A manifest appears after the parts that it lists.
    for names in ([f for f in files if "/" in f], [f for f in files if "/" not in f]):
        copy_files(home.storage, names, f"{source}/", f"{target}/")
    for name in added:
        if "/" not in name:
            bring_up_view(home, table, int(name.removesuffix(".json")))
