"""Prepares the view of a migrated table beside its new state, so that both are switched in together."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration.prepared_table import PreparedView
from keyfold.engine.migration.switch import VIEW
from keyfold.engine.state.mapping import StateMapping
from keyfold.engine.state.table_rows import from_state
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.views.changes import as_changes
from keyfold.views.contract import ViewSchema
from keyfold.views.query.filters import Compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE: Final = 5_000


def prepare(
    spark: SparkSession,
    compiled: Compiled,
    mapping: StateMapping | None,
    home: AppHome,
    old: str,
    target: TableHome,
    batch: int,
) -> PreparedView:
    """Writes the rows of the new view into a file; returns its schema and position."""
    table_home = home.table(old)
    manifest, watermark = TableLog(table_home.log_files).find(batch), table_home.spark.watermark(batch)
    closed = _closed_windows(compiled, mapping, home, old, watermark)
    rows = chain(closed, _open(spark, compiled, home, old, target, batch))
    at = datetime.now(UTC) if manifest is None else manifest.at
    return write_view(target.storage, compiled.view, rows, at, watermark)


def write_view(
    storage: Storage,
    schema: ViewSchema,
    rows: Iterator[pa.RecordBatch],
    at: datetime,
    watermark: datetime | None,
) -> PreparedView:
    """Writes the rows of a view that takes another one's place into a file."""
    with tempfile.TemporaryDirectory(prefix="keyfold-migrate-") as directory:
        path = Path(directory) / VIEW
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema.arrow) as out:
            for some in rows:
                out.write_batch(some)
        storage.send(path, VIEW)
    return PreparedView(schema.to_json(), at, watermark)


def _open(
    spark: SparkSession, compiled: Compiled, home: AppHome, old: str, target: TableHome, batch: int
) -> Iterator[pa.RecordBatch]:
    """The rows of the state or, where only the view has rows, those of the old view.

    The state of patterns and processors can't be turned into rows, nor migrated, except for the table's name.
    """
    if compiled.rebuilt is not None:
        yield from from_state(spark, compiled, target, batch)
        return
    if not home.views.exists():
        return
    with home.views.open(read_only=True) as store:
        if old in store.tables():
            yield from as_changes(store.scan(old), compiled.view)


def _closed_windows(
    compiled: Compiled, mapping: StateMapping | None, home: AppHome, old: str, watermark: datetime | None
) -> Iterator[pa.RecordBatch]:
    """Closed windows, which are not in state, with their old values under the new names of columns."""
    merges = mapping is not None and mapping.merges
    if not closes(compiled.spec.window) or compiled.spec.keep_ms is not None or merges or watermark is None:
        return
    if not home.views.exists():
        return
    with home.views.open(read_only=True) as store:
        if old not in store.tables():
            return
        before = store.schema(old)
        end = next(key for key in before.keys if key.name == BOUNDS[1])
        sources = sources_of(compiled, mapping, {one.name for one in (*before.keys, *before.columns)})
        found: list[dict[str, Any]] = []
        for row in store.scan(old, where=Compare(end, "<=", watermark)):
            found.append({"_op": "final", **{new: row[name] for new, name in sources.items()}})
            if len(found) == _AT_ONCE:
                yield pa.RecordBatch.from_pylist(found, schema=compiled.view.arrow)
                found = []
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=compiled.view.arrow)


def sources_of(compiled: Compiled, mapping: StateMapping | None, known: set[str]) -> dict[str, str]:
    """The column of the old view for each column; new and redefined ones have none."""
    renames = {} if mapping is None else mapping.renames
    redefined = [] if mapping is None else mapping.redefined
    names = [one.name for one in (*compiled.view.keys, *compiled.view.columns)]
    sources = {name: renames.get(name, name) for name in names if name not in redefined}
    return {name: source for name, source in sources.items() if source in known}
