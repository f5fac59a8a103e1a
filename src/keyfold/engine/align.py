"""Brings a table's view and its state together before the queries start.

Spark commits a batch after the view has it, so the view is at Spark's last batch or one ahead. A view that is
behind (views were off for a while, or its file was deleted) is rebuilt from the state; one that is further
ahead belongs to a checkpoint that is gone, and nothing can be right then.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from keyfold.engine.batch import arrow_batches
from keyfold.engine.compile import Compiled
from keyfold.engine.home import TableHome
from keyfold.errors import HomeUnusable
from keyfold.views.contract import ViewStore
from keyfold.views.none import NoViews

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def align(spark: SparkSession, store: ViewStore, compiled: Compiled, home: TableHome) -> None:
    """Makes the view if need be, rebuilds it if it is behind, refuses it if it is ahead."""
    if isinstance(store, NoViews):
        return
    name, state = compiled.spec.name, home.committed()
    if home.begun() is None and store.position(name) is None:
        # Nothing has run yet: an earlier definition may have left an empty view.
        store.drop(name)
    store.create(compiled.view)
    position = store.position(name)
    at = -1 if position is None else position.batch
    if at > (-1 if state is None else state) + 1 or (at >= 0 and home.begun() is None):
        has = "is gone" if home.begun() is None else f"is at batch {-1 if state is None else state}"
        raise HomeUnusable(
            f"the view of {compiled.spec.app}.{name} is at batch {at}, and its checkpoint {has}; "
            "nothing was changed",
            given=home.checkpoint,
            hint="bring back the checkpoint that belongs to the view; or give the table a new name, which "
            "starts from the first row; or start anew in another home (keyfold run APP.py --home DIR)",
        )
    if state is not None and at < state:
        _rebuild(spark, store, compiled, home, state)


def _rebuild(spark: SparkSession, store: ViewStore, compiled: Compiled, home: TableHome, batch: int) -> None:
    batches = from_state(spark, compiled, home, batch)
    store.rebuild(compiled.spec.name, compiled.view, batches, batch, datetime.now(UTC))


def from_state(
    spark: SparkSession, compiled: Compiled, home: TableHome, batch: int
) -> Iterator[pa.RecordBatch]:
    """The table's rows as of a batch: what closed windows left is not among them, unless they are kept."""
    if compiled.rebuilt is None:
        raise HomeUnusable(
            f"the view of {compiled.spec.app}.{compiled.spec.name} is behind its state, "
            f"{_unknown(compiled)}, so that it can't be made again",
            given=f"{home.path}, batch {batch}",
            hint="bring views.db back; or go on without views; or `keyfold reset "
            f"{compiled.spec.app}.{compiled.spec.name}`, after which it starts from the first row",
        )
    wanted = compiled.view.arrow
    for kept in (False,) if compiled.spec.keep_ms is None else (False, True):
        for found in arrow_batches(compiled.rebuilt(_state(spark, home, batch, kept), kept)):
            columns = [found.column(field.name).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _unknown(compiled: Compiled) -> str:
    if compiled.spec.pattern is not None:
        return "which has partial matches, and not those that were found"
    return "of which only its processor knows what it means"


def _state(spark: SparkSession, home: TableHome, batch: int, kept: bool) -> DataFrame:
    return (
        spark.read.format("statestore")
        .option("path", home.checkpoint_url)
        .option("stateVarName", "kept" if kept else "state")
        .option("batchId", batch)
        .load()
    )
