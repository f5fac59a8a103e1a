"""Writes a table's state anew through a transform, on a copy, and puts that in the place of the old one.

`rewritten` makes the copy; nothing depends on it yet. `switch` records in `rewriting.json` what takes whose
place, and is certain from then on: if the command is killed, the next command or start finishes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import session
from keyfold.engine.operations.checkpoint_copy import copied_checkpoint, working_copy
from keyfold.engine.recovery.view_following import bring_up_view
from keyfold.engine.savepoint.capture import copy_files
from keyfold.engine.state.digest import of_rows, stored
from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadOption, HomeUnusable
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTENT: Final = "rewriting.json"
WORK: Final = "rewriting"
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
    return f"{WORK}/{table}"


def require_stopped_between_batches(place: AppHome, table: str) -> int:
    """The last batch of a table, which must be committed."""
    name, home = f"{place.path.name}.{table}", place.table(table)
    committed, begun = home.committed(), home.begun()
    if begun != committed:
        raise BadOption(
            f"batch {begun} of {name} is not finished",
            given=table,
            hint="start the app, let it finish the batch, and stop it (keyfold run APP.py --drain)",
        )
    if committed is None:
        raise BadOption(f"{name} has no state yet", given=table, hint="start the app first")
    return committed


def rewritten(spark: SparkSession, place: AppHome, table: str, transform: Transform) -> Rewritten:
    """Makes a copy of a table's checkpoint whose last batch has another state; the caller holds the home."""
    batch = require_stopped_between_batches(place, table)
    copy = working_copy(place, table, work(table))
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
    return int(kernel.rewriteState(spark._jsparkSession, _path(checkpoint), rows, partitions))


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


def discard(place: AppHome) -> None:
    """Removes copies that nothing depends on."""
    place.storage.delete(WORK)


def switch(
    place: AppHome,
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
    intents.record(place.storage, INTENT, document, WORK)
    reached(FaultPoint.REWRITE_RECORDED, tables=tables)
    finish(place)


def finish(place: AppHome) -> None:
    """Carries out a recorded switch, if need be again, or removes what was not recorded."""
    storage = place.storage
    intent = intents.begun(place, INTENT, WORK)
    if intent is None:
        discard(place)
        return
    for table in intent["tables"]:
        _replace_checkpoint(place, table)
        _add_to_log(place, table)
        reached(FaultPoint.REWRITE_TABLE_DONE, table=table)
    if intent["plan"] is not None:
        place.write_plan(intent["plan"])
    audit.append(storage, intent["entry"])
    storage.delete(INTENT)
    discard(place)


def _replace_checkpoint(place: AppHome, table: str) -> None:
    source, target = f"{work(table)}/checkpoint", f"tables/{table}/checkpoint"
    files = [file.name for file in place.storage.files(source)]
    if files:
        place.storage.delete(target)
        copied_checkpoint(place.storage, source, target, files)


def _add_to_log(place: AppHome, table: str) -> None:
    source, target = f"{work(table)}/log", f"tables/{table}/log"
    there = {file.name for file in place.storage.files(target)}
    added = [file.name for file in place.storage.files(source)]
    files = [name for name in added if name not in there]
    # A manifest appears after the parts that it lists.
    for names in ([f for f in files if "/" in f], [f for f in files if "/" not in f]):
        copy_files(place.storage, names, f"{source}/", f"{target}/")
    for name in added:
        if "/" not in name:
            bring_up_view(place, table, int(name.removesuffix(".json")))
