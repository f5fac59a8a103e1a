"""Aligns tables that read other tables with those, before the queries start.

A table that reads another for the first time gets a snapshot of all its rows, under the number of the batch
that they are of: if that batch runs again, its changes are not sent. A table that has missed changes, or has
read some that the other no longer has, is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keyfold import private
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log import chain
from keyfold.engine.log.chain import Links, Use
from keyfold.engine.recovery.state_rows import from_state
from keyfold.engine.storage.files import rename_durably, replace_file
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import StateMismatch
from keyfold.plan.nodes import AppSpec
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.views.contract import ViewSchema, ViewStore
from keyfold.views.none import NoViews

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_AT_ONCE: Final = 10_000


def prepare(
    spark: SparkSession, spec: AppSpec, compiled: list[Compiled], place: AppHome, store: ViewStore
) -> dict[str, Links]:
    """Where the changes of each table go."""
    found = [(one, chain.readers(spec, one.spec.name)) for one in compiled]
    for one, uses in found:
        for use in uses:
            _check(one, use, place)
    for one, _ in found:
        _begin(one, place.table(one.spec.name))
    links, tables = {}, {one.spec.name: one for one in compiled}
    for one, uses in found:
        for use in uses:
            if place.table(use.reader).begun() is not None:
                chain.tidy(use, place.table(use.reader), tables[use.reader].files.numbers())
        upto = ((_directory(use, place), _upto(spark, one, use, place, store)) for use in uses)
        links[one.spec.name] = Links(upto)
        _remember(place.table(one.spec.name), uses)
    return links


def _check(upstream: Compiled, use: Use, place: AppHome) -> None:
    home, table = place.table(upstream.spec.name), f"{upstream.spec.app}.{use.reader}"
    if place.table(use.reader).begun() is None:
        return
    begun = _number(home.begun())
    sent, left = chain.sent(use, place), _known(home).get(_key(use))
    reset = f"`keyfold reset {table}`, after which it starts from the rows that {use.table} has now"
    if sent > begun:
        raise StateMismatch(
            f"{table} has read changes of {use.table} up to batch {sent}, whose state is at {begun}; "
            "nothing was changed",
            given=home.path,
            hint=f"restore the checkpoint of {use.table}; or {reset}",
        )
    if left is not None and begun > left:
        raise StateMismatch(
            f"{table} was not part of the app for some time, and has missed changes of {use.table}; "
            "nothing was changed",
            given=f"changes up to batch {left} of {begun}",
            hint=reset,
        )


def _begin(compiled: Compiled, home: TableHome) -> None:
    """Removes the files of a table's earlier state, and of a start that was interrupted."""
    if home.begun() is not None:
        return
    if chain.uses(compiled.spec):
        # The source log may name files of a snapshot that is about to be written again.
        shutil.rmtree(home.checkpoint / "sources", ignore_errors=True)
    for use in chain.uses(compiled.spec):
        for file in chain.files(use.directory(home)).values():
            file.unlink()


def _upto(spark: SparkSession, upstream: Compiled, use: Use, place: AppHome, store: ViewStore) -> int:
    """The newest batch that a reader has; a snapshot of it is written if the reader starts now."""
    reader = place.table(use.reader)
    if reader.begun() is not None:
        return chain.sent(use, place)
    home = place.table(upstream.spec.name)
    position = store.position(upstream.spec.name)
    if not isinstance(store, NoViews):
        batch = None if position is None else position.batch
        closed = position.watermark if position and closes(upstream.spec.window) else None
        rows = from_view(store, upstream.view, closed)
    else:
        batch = home.committed()
        rows = iter(()) if batch is None else from_state(spark, upstream, home, batch)
    if batch is None:
        return -1
    _write(rows, upstream.view, use.directory(reader) / f"{batch:012d}.parquet")
    return batch


def from_view(
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


def _write(rows: Iterator[pa.RecordBatch], schema: ViewSchema, path: Path) -> None:
    """Writes a snapshot, even one without rows: its name tells after which batch changes follow."""
    private.directory(path.parent)
    columns = as_parquet(schema.arrow)
    temporary = path.with_name(f".{path.name}")
    private.write(temporary, b"")
    with pq.ParquetWriter(temporary, columns) as writer:
        for batch in rows:
            writer.write_batch(batch.cast(columns))
    rename_durably(temporary, path)


def _remember(home: TableHome, uses: list[Use]) -> None:
    """Records which tables read the changes from now on, and up to which batch former readers did."""
    known = _known(home)
    left = _number(home.committed())
    now: dict[str, Any] = {key: left if upto is None else upto for key, upto in known.items()}
    now |= {_key(use): None for use in uses}
    if now != known:
        private.directory(home.path)
        replace_file(home.readers, json.dumps(now).encode())


def _known(home: TableHome) -> dict[str, int | None]:
    try:
        return dict(json.loads(home.readers.read_text("utf-8")))
    except FileNotFoundError:
        return {}


def _key(use: Use) -> str:
    return f"{use.reader}/{use.number}"


def _directory(use: Use, place: AppHome) -> Path:
    return use.directory(place.table(use.reader))


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


def as_parquet(schema: pa.Schema) -> pa.Schema:
    """The schema with types that Spark reads from Parquet, which has no time of day in nanoseconds."""
    import pyarrow as pa

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
