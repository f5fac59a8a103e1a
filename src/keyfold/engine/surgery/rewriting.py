"""Rewrites a table's state through a transform, on a copy, and replaces the old state by it.

`rewrite_state` makes the copy; nothing depends on it until `switch` commits the replacement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.operations.checkpoint_copy import replace_checkpoint, working_copy
from keyfold.engine.operations.files import copy_files
from keyfold.engine.operations.kinds import REWRITE
from keyfold.engine.recovery.view_following import bring_up_view
from keyfold.engine.state.digest import of_rows, read_store
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadOption, HomeUnusable
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[[int, "DataFrame"], "DataFrame"]
"""Maps the number of an operator and all rows of its state to the rows of the new state.

Rows have `partition_key`, `key_bytes`, `value_bytes` and `column_family_name`, and must keep these columns; a
row goes to the partition of its `partition_key`. Operator 0 is that of the table itself.
"""


@dataclass(frozen=True)
class Rewritten:
    """A copy of a checkpoint with one more batch, which reads no rows and has a different state."""

    checkpoint: SparkCheckpoint
    before: int
    batch: int


def work(table: str) -> str:
    """The directory of the files that will replace a table's."""
    return f"{REWRITE.name}/{table}"


def require_stopped_between_batches(home: AppHome, table: str) -> int:
    """The last batch of a table, which must be committed."""
    name, table_home = f"{home.path.name}.{table}", home.table(table)
    committed, begun = table_home.committed_batch(), table_home.planned_batch()
    if begun != committed:
        raise BadOption(
            f"batch {begun} of {name} is not finished",
            given=table,
            hint="start the app, let it finish the batch, and stop it (keyfold run APP.py --drain)",
        )
    if committed is None:
        raise BadOption(f"{name} has no state yet", given=table, hint="start the app first")
    return committed


def rewrite_state(spark: SparkSession, home: AppHome, table: str, transform: Transform) -> Rewritten:
    """Copies a table's checkpoint, with another state for its last batch; the caller holds the home."""
    batch = require_stopped_between_batches(home, table)
    copy = working_copy(home, table, work(table))
    return Rewritten(copy, batch, rewrite(spark, copy, batch, transform))


def rewrite(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int, transform: Transform) -> int:
    """Adds a batch with a different state to a checkpoint; returns its number."""
    storage, partitions = checkpoint.storage, checkpoint.partitions()
    assert partitions is not None
    stores = _stores(spark, checkpoint, batch)
    frames = [
        transform(operator, read_store(spark, storage, operator, batch, name)) for operator, name in stores
    ]
    written = _write(spark, checkpoint, frames, partitions)
    for (operator, name), frame in zip(stores, frames, strict=True):
        _verify(storage.uri(), operator, frame, read_store(spark, storage, operator, written, name))
    return written


def resize(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int, partitions: int) -> int:
    """Adds a batch with the same state in a different number of partitions; returns its number."""
    stores = _stores(spark, checkpoint, batch)
    frames = [read_store(spark, checkpoint.storage, operator, batch, name) for operator, name in stores]
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
    """Spark takes a local path without its scheme, and names state files by it."""
    return checkpoint.storage.uri().removeprefix("file://")


def _verify(uri: str, operator: int, wanted: DataFrame, found: DataFrame) -> None:
    """Reads back what was written: the number of rows and a checksum over all of them."""
    if (given := of_rows(wanted, operator)) != (read := of_rows(found, operator)):
        raise HomeUnusable(
            f"operator {operator} of {uri} was not written as it should have been; nothing was changed",
            given=f"{read}, and it should be {given}",
            hint="this is a defect, please report it",
        )


def switch(home: AppHome, entry: Mapping[str, Any], tables: Sequence[str]) -> None:
    """Replaces the old files of tables by those in their `work` directories, durably.

    `checkpoint/` there replaces the table's, files below `log/` are added to its log. `entry`: for the audit
    log.
    """
    reached(FaultPoint.REWRITE_READY, tables=tables)
    REWRITE.commit(home, {"entry": entry, "tables": list(tables)})
    reached(FaultPoint.REWRITE_RECORDED, tables=tables)
    REWRITE.finish(home)


def carry_out(home: AppHome, document: dict[str, Any]) -> dict[str, Any]:
    """Switches the tables."""
    for table in document["tables"]:
        replace_checkpoint(home.storage, f"{work(table)}/checkpoint", table)
        _add_to_log(home, table)
        reached(FaultPoint.REWRITE_TABLE_DONE, table=table)
    entry: dict[str, Any] = document["entry"]
    return entry


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
