"""Prepares views before the queries start, and rebuilds those that the log can't bring up to date.

A view follows its table's log, so one that is behind catches up by itself as far back as the log reaches. A
view that was lost, or is further behind, is rebuilt: from the changes that the log still has, and on top of
them from the state, which has every live row. A view that is ahead of the log belongs to another home. A view
outside the home may also belong to the same table before a reset elsewhere: it is dropped.

State has no closed windows, unless they are retained. Those in the log, and rows of windows that were closed
when the view stopped, stay; rows of windows that have closed in between are lost, which is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.changes import changes
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.definition_check import ahead_of_state
from keyfold.engine.state.table_rows import from_state
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.read.metrics import read_status
from keyfold.views.contract import Position, ViewStore
from keyfold.views.none import NoViews
from keyfold.views.query.filters import All, Compare, Not

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("keyfold")


def align(spark: SparkSession, store: ViewStore, compiled: Compiled, home: AppHome) -> None:
    """Creates the view if it does not exist, rebuilds it if it can't follow, refuses it if it is ahead."""
    if isinstance(store, NoViews):
        return
    name = compiled.spec.name
    table_home = home.table(name)
    committed, log = table_home.committed_batch(), TableLog(table_home.log_files)
    if table_home.planned_batch() is None and store.position(name) is None:
        # Nothing has run yet: an earlier definition may have left an empty view.
        store.drop(name)
    if home.views_elsewhere and name in store.tables() and store.schema(name).difference(compiled.view):
        # The table was migrated on another machine; its state and definition agree by now.
        store.drop(name)
    store.create(compiled.view)
    position = store.position(name)
    if position is not None and home.views_elsewhere and not _is_of(log, position):
        # The table has been reset on another machine, or its log has advanced too far to tell.
        store.drop(name)
        store.create(compiled.view)
        position = None
    at = -1 if position is None else position.batch
    if at > max(_number(table_home.planned_batch()), _number(log.newest())) or (
        at >= 0 and table_home.planned_batch() is None
    ):
        raise ahead_of_state(
            compiled,
            "view",
            at,
            table_home,
            None if table_home.planned_batch() is None else _number(committed),
        )
    if committed is not None and not follows(log, at, table_home.spark.before_resizes(committed)):
        rebuild(spark, store, compiled, home, committed)


def require_checkpoint(compiled: Compiled, home: AppHome) -> None:
    """Refuses a table without a checkpoint whose view has batches; for commands that start no query."""
    table_home = home.table(compiled.spec.name)
    if table_home.planned_batch() is not None or home.views_elsewhere or not home.views.exists():
        return
    with home.views.open(read_only=True) as store:
        known = compiled.spec.name in store.tables()
        position = store.position(compiled.spec.name) if known else None
    if position is not None:
        raise ahead_of_state(compiled, "view", position.batch, table_home, None)


def _is_of(log: TableLog, position: Position) -> bool:
    """Whether a view reached its position by this log, not by an earlier log of the table."""
    manifest = log.find(position.batch)
    return manifest is not None and manifest.at == position.at


def follows(log: TableLog, at: int, upto: int) -> bool:
    """Whether the log has the changes of every batch after a position, up to another batch."""
    if at >= upto:
        return True
    found = list(log.after(at))
    whole = all(one.has_its_changes and (one.batch == 0 or one.previous is not None) for one in found)
    return totals(log).upto <= at and whole and bool(found) and found[-1].batch >= upto


def can_rebuild(compiled: Compiled, home: AppHome, batch: int) -> bool:
    """Whether a batch's state has the table's rows, or the log has all of its changes."""
    table_home = home.table(compiled.spec.name)
    return compiled.rebuilt is not None or has_all_changes(TableLog(table_home.log_files), table_home, batch)


def has_all_changes(log: TableLog, home: TableHome, batch: int) -> bool:
    """Whether the log has all changes up to a committed batch."""
    return follows(log, -1, home.spark.before_resizes(batch))


def rebuild(spark: SparkSession, store: ViewStore, compiled: Compiled, home: AppHome, batch: int) -> None:
    """Replaces a view by the rows in the log and, for the rest, those of a batch's state."""
    spec = compiled.spec
    table_home = home.table(spec.name)
    log = TableLog(table_home.log_files)
    batches = _logged_changes(log, compiled, batch)
    if compiled.rebuilt is not None or not has_all_changes(log, table_home, batch):
        batches = chain(batches, from_state(spark, compiled, table_home, batch))
    # A view is at the same position as the log.
    published = table_home.spark.before_resizes(batch)
    manifest, watermark = log.find(published), table_home.spark.watermark(batch)
    now = Position(published, datetime.now(UTC) if manifest is None else manifest.at, watermark)
    if closes(spec.window) and spec.keep_ms is None:
        _rebuild_open(store, compiled, home, now, batches)
    else:
        store.rebuild(spec.name, compiled.view, batches, now.batch, now.at, watermark)


def _logged_changes(log: TableLog, compiled: Compiled, batch: int) -> Iterator[pa.RecordBatch]:
    """The changes in the log up to a batch.

    Before a batch whose changes were only counted, as happens while a log has no readers, only those of
    closed windows: other rows may have been deleted since.
    """
    found = [manifest for manifest in log.after(totals(log).upto) if manifest.batch <= batch]
    counted = max((m.batch for m in found if not m.has_its_changes), default=-1)
    for manifest in found:
        for one in changes(log, manifest, compiled.view):
            yield one if manifest.batch > counted else one.filter(pc.equal(one.column("_op"), "final"))


def _rebuild_open(
    store: ViewStore, compiled: Compiled, home: AppHome, now: Position, batches: Iterator[pa.RecordBatch]
) -> None:
    """Rebuilds a view from a state that only has open windows."""
    name, before = compiled.spec.name, store.position(compiled.spec.name)
    then = before.watermark if before else None
    end = next(key for key in compiled.view.keys if key.name == BOUNDS[1])
    closed = None if now.watermark is None else Compare(end, "<=", now.watermark)
    known = None if then is None else Compare(end, "<=", then)
    lost = store.count(name, All((closed, *(() if known is None else (Not(known),))))) if closed else 0
    store.rebuild(name, compiled.view, batches, now.batch, now.at, now.watermark, keep=known)
    if before is None:
        lost = _fewer(store, name, home, now.batch)
    if closed != known and (before or lost != 0):
        _LOG.warning("%s", _loss(compiled.name, before, now.batch, lost, home.views.name))


def _fewer(store: ViewStore, table: str, home: AppHome, batch: int) -> int | None:
    """How many rows fewer the view has than when the app last ran; None if unknown."""
    last = read_status(home).tables.get(table)
    known = last.keys if last is not None and last.batch == batch else None
    now = store.count(table)
    return None if known is None or now is None else max(0, known - now)


def _loss(table: str, before: Position | None, batch: int, lost: int | None, views: str) -> str:
    if lost is None:
        rows = "an unknown number of rows of closed windows is"
    else:
        rows = "1 row of a closed window is" if lost == 1 else f"{lost:,} rows of closed windows are"
    if before is None:
        was = "missing"
        more = f". A backup of {views}, restored before a start, has the windows that were closed by then"
    else:
        was = f"at batch {before.batch}, before that"
        more = ", and so are windows that opened and closed in between"
    return (
        f"{table}: the view was {was}, and has been rebuilt from the state of batch {batch}. "
        f"State has no closed windows: {rows} missing{more}. "
        'With keep="7 days" a table keeps closed windows in state for that time.'
    )


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch
