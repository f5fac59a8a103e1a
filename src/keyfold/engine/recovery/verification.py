"""Whether the view of a table agrees with its state and its log, key by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.changes import changes
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import view_rebuild
from keyfold.engine.state.table_rows import from_state
from keyfold.engine.storage.layout import AppHome
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.views.contract import Difference, ViewStore
from keyfold.views.query.filters import Compare, Filter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN: Final = 20
"""The maximum number of differences to name."""
_START: Final = "start the app, which repairs it, and stop it (keyfold run APP.py --drain)"
_HISTORY: Final = "history=..., declared before the table's first batch, keeps all changes in the log"
_KEEP: Final = f"keep=... retains them in the state for a while; {_HISTORY}"


@dataclass(frozen=True)
class NotCompared:
    """Why a view was not compared with its state or its log, and what to do."""

    why: str
    hint: str


Side = list[Difference] | NotCompared


@dataclass(frozen=True)
class Verified:
    """The result for one table."""

    table: str
    batch: int | None
    rows: int
    state: Side
    log: Side
    closed: int = 0
    """The rows of closed windows that were compared with neither, since neither has them any more."""

    @property
    def equal(self) -> bool:
        """Whether no comparison found a difference."""
        return not any(isinstance(found, list) and found for found in (self.state, self.log))

    @property
    def compared(self) -> bool:
        """Whether the view was compared with its state or its log; few tables allow both."""
        return isinstance(self.state, list) or isinstance(self.log, list)


def verify(spark: SparkSession, compiled: Compiled, home: AppHome, view: ViewStore) -> Verified:
    """Compares a view with the rows of the table's state, and with the sum of the changes in its log."""
    name, table_home = compiled.spec.name, home.table(compiled.spec.name)
    batch, position = table_home.committed_batch(), view.position(name)
    rows = 0 if position is None else view.count(name) or 0
    if batch is None or position is None:
        none = NotCompared(f"the table has no {'batch yet' if batch is None else 'view'}", _START)
        return Verified(name, batch, rows, none, none)
    if not table_home.spark.before_resizes(batch) <= position.batch <= batch:
        apart = NotCompared(f"the view is at batch {position.batch}, the state at {batch}", _START)
        return Verified(name, batch, rows, apart, apart)
    open_windows = _open_windows(compiled, home, batch)
    state = _with_state(spark, compiled, home, view, batch, open_windows)
    log = _with_log(compiled, home, view, batch, open_windows)
    if open_windows is None or isinstance(log, list):
        return Verified(name, batch, rows, state, log)
    return Verified(name, batch, rows, state, log, rows - (view.count(name, open_windows) or 0))


def _with_state(
    spark: SparkSession,
    compiled: Compiled,
    home: AppHome,
    view: ViewStore,
    batch: int,
    open_windows: Filter | None,
) -> Side:
    if compiled.rebuilt is None:
        return NotCompared("the state of a pattern or a processor has no rows that can be compared", _HISTORY)
    found = from_state(spark, compiled, home.table(compiled.spec.name), batch)
    return view.compare(compiled.view, found, open_windows, SHOWN)


def _with_log(
    compiled: Compiled, home: AppHome, view: ViewStore, batch: int, open_windows: Filter | None
) -> Side:
    table_home = home.table(compiled.spec.name)
    log = TableLog(table_home.log_files)
    if not view_rebuild.has_all_changes(log, table_home, batch):
        hint = _HISTORY if open_windows is None else _KEEP
        return NotCompared("the log does not have all changes of the table", hint)
    return view.compare(compiled.view, _changes(log, compiled, batch), None, SHOWN)


def _changes(log: TableLog, compiled: Compiled, batch: int) -> Iterator[pa.RecordBatch]:
    for manifest in log.after(-1):
        if manifest.batch <= batch:
            yield from changes(log, manifest, compiled.view)


def _open_windows(compiled: Compiled, home: AppHome, batch: int) -> Filter | None:
    """State only has open windows, unless closed ones are retained."""
    if not closes(compiled.spec.window) or compiled.spec.keep_ms is not None:
        return None
    watermark = home.table(compiled.spec.name).spark.watermark(batch)
    end = next(key for key in compiled.view.keys if key.name == BOUNDS[1])
    return None if watermark is None else Compare(end, ">", watermark)
