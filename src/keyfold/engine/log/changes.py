"""The changes in a log, batch by batch, in the types of the table's view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog

if TYPE_CHECKING:
    import pyarrow as pa

    from keyfold.views.contract import ViewSchema


def changes(log: TableLog, manifest: Manifest, schema: ViewSchema) -> Iterator[pa.RecordBatch]:
    """The changes of a batch for the view: `_op`, key columns, the other columns."""
    wanted = schema.arrow
    for found in log.rows(manifest, "change", wanted.names):
        yield _in_types(found, wanted)


def _in_types(found: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [found.column(field.name) for field in wanted]
    return pa.RecordBatch.from_arrays(
        [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, wanted, strict=True)],
        schema=wanted,
    )


def rows(log: TableLog, schema: ViewSchema, after: int = -1) -> Iterator[dict[str, Any]]:
    """The changes of the batches after a given one, oldest first, each with `_op` and `_batch`."""
    columns = (*schema.keys, *schema.columns)
    names = ("_op", *(column.name for column in columns))
    for manifest in log.after(after):
        for found in changes(log, manifest, schema):
            decoded = [found.column("_op").to_pylist()]
            decoded += [column.type.python_values(found.column(column.name)) for column in columns]
            for values in zip(*decoded, strict=True):
                yield {**dict(zip(names, values, strict=True)), "_batch": manifest.batch}
