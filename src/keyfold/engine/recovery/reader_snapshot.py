"""The rows of a table as a snapshot, for a table or a topic that starts to follow it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.changes import changes
from keyfold.engine.log.manifest import LAYOUT
from keyfold.engine.log.readers import SNAPSHOT, Use
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.state.table_rows import from_state
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.views.contract import ViewSchema, ViewStore
from keyfold.views.none import NoViews

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_AT_ONCE: Final = 10_000
_PART_BYTES: Final = 16 << 20


def write(spark: SparkSession, upstream: Compiled, use: Use, home: AppHome, store: ViewStore) -> None:
    """Writes the snapshot that a reader starts with; none if the table has not published a batch yet."""
    directory = use.directory(home.table(use.reader))
    _remove(directory)
    found = rows(spark, upstream, home, store)
    if found is None:
        return
    batch, all_rows = found
    parts = list(_write_parts(all_rows, upstream.view, directory, batch))
    reached(FaultPoint.SNAPSHOT_WRITTEN, table=use.reader, batch=batch)
    document = {"layout": LAYOUT, "batch": batch, "parts": parts}
    directory.put(SNAPSHOT, json.dumps(document).encode())
    reached(FaultPoint.SNAPSHOT_RECORDED, table=use.reader, batch=batch)


def rows(
    spark: SparkSession, upstream: Compiled, home: AppHome, store: ViewStore
) -> tuple[int, Iterator[pa.RecordBatch]] | None:
    """The newest published batch and all rows after it, as changes; None before the first batch."""
    log = TableLog(home.table(upstream.spec.name).log_files)
    if isinstance(store, NoViews):
        return _from_state(spark, upstream, home, log)
    return _from_view(upstream, log, store)


def _remove(directory: Storage) -> None:
    """Removes the snapshot of a start that did not reach a batch; its record is removed first."""
    directory.delete(SNAPSHOT)
    for name in directory.list():
        if name.endswith(".parquet"):
            directory.delete(name)


def _from_view(
    upstream: Compiled, log: TableLog, store: ViewStore
) -> tuple[int, Iterator[pa.RecordBatch]] | None:
    """The rows of the view, once it has applied all published batches."""
    follower = ViewFollower(log, store, upstream.view)
    for manifest in log.after(follower.position):
        follower.apply(manifest)
    position = store.position(upstream.spec.name)
    if position is None:
        return None
    closed = position.watermark if closes(upstream.spec.window) else None
    return position.batch, view_rows(store, upstream.view, closed)


def view_rows(
    store: ViewStore, schema: ViewSchema, closed: datetime | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows of a view, as changes; windows that ended up to `closed` are final."""
    columns, scan = (*schema.keys, *schema.columns), store.scan(schema.table)
    while rows := list(islice(scan, _ROWS_AT_ONCE)):
        arrays = {}
        for column in columns:
            read = column.type.to_canonical
            values = [None if row[column.name] is None else read(row[column.name]) for row in rows]
            arrays[column.name] = pa.array(values, column.type.canonical_arrow).cast(column.type.arrow)
        yield pa.RecordBatch.from_arrays(
            [_operations(arrays, len(rows), closed), *arrays.values()], schema=schema.arrow
        )


def _operations(arrays: dict[str, pa.Array], n: int, closed: datetime | None) -> pa.Array:
    """The kind of each row's last change, which its retraction must repeat."""
    if closed is None:
        return pa.array(["upsert"] * n)
    ends = arrays[BOUNDS[1]]
    return pc.if_else(pc.less_equal(ends, pa.scalar(closed, ends.type)), "final", "upsert")


def _from_state(
    spark: SparkSession, upstream: Compiled, home: AppHome, log: TableLog
) -> tuple[int, Iterator[pa.RecordBatch]] | None:
    """The rows of the state, with the changes published after Spark committed it: at most one batch."""
    table_home = home.table(upstream.spec.name)
    committed, newest = table_home.committed_batch(), log.newest()
    batch = max(-1 if committed is None else committed, -1 if newest is None else newest)
    if batch < 0:
        return None
    rows = iter(()) if committed is None else from_state(spark, upstream, table_home, committed)
    later = log.after(-1 if committed is None else committed)
    changed = [found for m in later for found in changes(log, m, upstream.view)]
    return batch, overlay(rows, changed, [key.name for key in upstream.view.keys]) if changed else rows


def overlay(
    rows: Iterator[pa.RecordBatch], changed: list[pa.RecordBatch], keys: list[str]
) -> Iterator[pa.RecordBatch]:
    """Rows with later changes applied; the last change of a key counts."""
    newest: dict[Any, tuple[pa.RecordBatch, int]] = {}
    for batch in changed:
        newest.update({key: (batch, at) for at, key in enumerate(_keys(batch, keys))})
    for batch in rows:
        yield batch.filter(pa.array([key not in newest for key in _keys(batch, keys)], pa.bool_()))
    for batch, at in newest.values():
        if batch.column("_op")[at].as_py() != "delete":
            yield batch.slice(at, 1)


def _keys(batch: pa.RecordBatch, keys: list[str]) -> list[Any]:
    """The keys of rows, as values that can be compared and hashed."""
    columns = [batch.column(name).to_pylist() for name in keys]
    return [repr(key) for key in zip(*columns, strict=True)]


def _write_parts(
    rows: Iterator[pa.RecordBatch], schema: ViewSchema, directory: Storage, batch: int
) -> Iterator[dict[str, Any]]:
    """Writes a snapshot in parts that fit into memory, at least one, and yields them for its record."""
    for number in count():
        found = _part(rows, as_parquet(schema.arrow))
        if found.rows or number == 0:
            name = f"{batch}-{number}.parquet"
            directory.put(name, found.content)
            yield {"path": name, "kind": "change", "rows": found.rows, "bytes": len(found.content)}
        if not found.more:
            return


class _Part(NamedTuple):
    """A part of a snapshot; `more`: whether more rows may follow."""

    content: bytes
    rows: int
    more: bool


def _part(rows: Iterator[pa.RecordBatch], columns: pa.Schema) -> _Part:
    content, written, more = pa.BufferOutputStream(), 0, False
    with pq.ParquetWriter(content, columns) as writer:
        for batch in rows:
            writer.write_batch(batch.cast(columns))
            written += batch.num_rows
            if more := content.tell() >= _PART_BYTES:
                break
    return _Part(content.getvalue().to_pybytes(), written, more)


def as_parquet(schema: pa.Schema) -> pa.Schema:
    """The schema in types that Spark reads from Parquet, which has no time of day in nanoseconds."""

    def readable(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_time64(kind):
            return pa.time64("us")
        if pa.types.is_list(kind):
            return pa.list_(readable(kind.value_type))
        if pa.types.is_map(kind):
            return pa.map_(readable(kind.key_type), readable(kind.item_type))
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, readable(field.type)) for field in kind])
        return kind

    return pa.schema([(field.name, readable(field.type)) for field in schema])
