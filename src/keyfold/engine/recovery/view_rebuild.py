"""Rebuilds views that are behind their tables' state, before the queries start.

Spark commits a batch after the view has it, so the view is at Spark's last batch or one ahead. A view that is
behind (views were off for a while, or its file was deleted) is rebuilt from the state; one that is further
ahead belongs to a lost checkpoint and is refused.

State has no closed windows, unless they are kept. Rows of windows that were closed when the view stopped stay
in it, since nothing can have changed them; rows of windows that have closed since are lost, which is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from keyfold.engine.batch.hook import arrow_batches
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import HomeUnusable
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.views.contract import Position, ViewStore
from keyfold.views.none import NoViews
from keyfold.views.query.filters import All, Compare, Not

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG: Final = logging.getLogger("keyfold")


def align(spark: SparkSession, store: ViewStore, compiled: Compiled, place: AppHome) -> None:
    """Creates the view if it does not exist, rebuilds it if it is behind, refuses it if it is ahead."""
    if isinstance(store, NoViews):
        return
    name = compiled.spec.name
    home = place.table(name)
    state = home.committed()
    if home.begun() is None and store.position(name) is None:
        # Nothing has run yet: an earlier definition may have left an empty view.
        store.drop(name)
    store.create(compiled.view)
    position = store.position(name)
    at = -1 if position is None else position.batch
    if at > (-1 if state is None else state) + 1 or (at >= 0 and home.begun() is None):
        has = "is missing" if home.begun() is None else f"is at batch {-1 if state is None else state}"
        raise HomeUnusable(
            f"the view of {compiled.name} is at batch {at}, and its checkpoint {has}; nothing was changed",
            given=home.checkpoint,
            hint="restore the checkpoint that belongs to the view; or `keyfold reset "
            f"{compiled.name}`, after which it starts from the first row",
        )
    if state is not None and at < state:
        _rebuild(spark, store, compiled, place, state)


def _rebuild(spark: SparkSession, store: ViewStore, compiled: Compiled, place: AppHome, batch: int) -> None:
    spec = compiled.spec
    home = place.table(spec.name)
    batches, watermark = from_state(spark, compiled, home, batch), home.spark.watermark(batch)
    if closes(spec.window) and spec.keep_ms is None:
        _rebuild_open(store, compiled, place, Position(batch, datetime.now(UTC), watermark), batches)
    else:
        store.rebuild(spec.name, compiled.view, batches, batch, datetime.now(UTC), watermark)


def _rebuild_open(
    store: ViewStore, compiled: Compiled, place: AppHome, now: Position, batches: Iterator[pa.RecordBatch]
) -> None:
    """Rebuilds a view from a state that has only open windows."""
    name, before = compiled.spec.name, store.position(compiled.spec.name)
    then = before.watermark if before else None
    end = next(key for key in compiled.view.keys if key.name == BOUNDS[1])
    closed = None if now.watermark is None else Compare(end, "<=", now.watermark)
    known = None if then is None else Compare(end, "<=", then)
    lost = store.count(name, All((closed, *(() if known is None else (Not(known),))))) if closed else 0
    store.rebuild(name, compiled.view, batches, now.batch, now.at, now.watermark, keep=known)
    if before is None:
        lost = _fewer(store, name, place, now.batch)
    if closed != known and (before or lost != 0):
        _LOG.warning("%s", _loss(f"{compiled.name}", before, now.batch, lost))


def _fewer(store: ViewStore, table: str, place: AppHome, batch: int) -> int | None:
    """How many rows fewer the view has than when the app last ran; None if that is unknown."""
    last = place.read_status().get("tables", {}).get(table, {})
    known = last.get("keys") if last.get("batch") == batch else None
    now = store.count(table)
    return None if known is None or now is None else max(0, known - now)


def _loss(table: str, before: Position | None, batch: int, lost: int | None) -> str:
    if lost is None:
        rows = "an unknown number of rows of closed windows is"
    else:
        rows = "1 row of a closed window is" if lost == 1 else f"{lost:,} rows of closed windows are"
    if before is None:
        was = "missing"
        more = ". A backup of views.db, restored before a start, has the windows that were closed by then"
    else:
        was = f"at batch {before.batch}, before that"
        more = ", and so are windows that opened and closed in between"
    return (
        f"{table}: the view was {was}, and has been rebuilt from the state of batch {batch}. "
        f"State has no closed windows: {rows} missing{more}. "
        'With keep="7 days" a table keeps closed windows in state for that time.'
    )


def from_state(
    spark: SparkSession, compiled: Compiled, home: TableHome, batch: int
) -> Iterator[pa.RecordBatch]:
    """The table's rows as of a batch, without those of closed windows that are not kept."""
    if compiled.rebuilt is None:
        raise HomeUnusable(
            f"the view of {compiled.name} is behind its state, {_opaque(compiled)}, so it can't be rebuilt",
            given=f"{home.path}, batch {batch}",
            hint="restore views.db from a backup; or run without views; or `keyfold reset "
            f"{compiled.name}`, after which it starts from the first row",
        )
    wanted = compiled.view.arrow
    for kept in (False,) if compiled.spec.keep_ms is None else (False, True):
        for found in arrow_batches(compiled.rebuilt(_state(spark, home, batch, kept), kept)):
            columns = [found.column(field.name).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _opaque(compiled: Compiled) -> str:
    if compiled.spec.pattern is not None:
        return "which has partial matches but not the completed ones"
    return "which only its processor can interpret"


def _state(spark: SparkSession, home: TableHome, batch: int, kept: bool) -> DataFrame:
    return (
        spark.read.format("statestore")
        .option("path", home.checkpoint_url)
        .option("stateVarName", "kept" if kept else "state")
        .option("batchId", batch)
        .load()
    )
