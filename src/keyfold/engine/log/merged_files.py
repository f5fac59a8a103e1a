"""Writes the rows of many batches into one file per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import MERGED_BATCH
from keyfold.engine.log.manifest import Kind, Manifest, Part, part_of
from keyfold.engine.log.table_log import ROWS_AT_ONCE, TableLog

if TYPE_CHECKING:
    import pyarrow as pa

# Written once and read seldom: smaller files are worth the time.
_COMPRESSION: Final = "zstd"


class MergedFiles:
    """The files of one range of batches, one per kind of rows, in memory until `write`."""

    def __init__(self, log: TableLog, schemas: Mapping[Kind, pa.Schema]) -> None:
        self._log = log
        self._files = {kind: _File(schema) for kind, schema in schemas.items()}
        self._manifests: list[Manifest] = []

    def add(self, manifest: Manifest, gone: bool) -> None:
        """Adds the rows of a batch; `gone`: its changes have been removed."""
        parts = []
        for kind, file in self._files.items():
            found = manifest.of_kind(kind)
            if found and not (gone and kind == "change"):
                first = file.rows
                for part in found:
                    for rows in self._log.part_rows(part):
                        file.add(_of_batch(rows, manifest.batch) if kind == "change" else rows)
                # Path and size of the file are set at the end.
                parts.append(Part("", kind, file.rows - first, 0, "", first))
        self._manifests.append(replace(manifest, parts=tuple(parts)))

    def write(self, directory: str) -> list[Manifest]:
        """Writes the files; returns the batches' manifests with their slices."""
        written: dict[str, Part] = {}
        for kind, file in self._files.items():
            if file.rows:
                name, content = f"{directory}/part-{kind}.parquet", file.content()
                self._log.storage.put(name, content)
                written[kind] = part_of(name, kind, file.rows, content)
        return [
            replace(
                manifest,
                parts=tuple(
                    replace(written[part.kind], rows=part.rows, first=part.first) for part in manifest.parts
                ),
            )
            for manifest in self._manifests
        ]


class _File:
    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.rows = 0
        self._schema, self._out = schema, pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._out, schema, compression=_COMPRESSION, store_schema=False)
        self._waiting: list[Any] = []
        self._waiting_rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        import pyarrow as pa

        if rows.schema != self._schema:
            # The row for a missing file only has the columns it needs.
            names = rows.schema.names
            columns = [
                rows.column(field.name) if field.name in names else pa.nulls(rows.num_rows, field.type)
                for field in self._schema
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= ROWS_AT_ONCE:
            self._flush()

    def content(self) -> bytes:
        self._flush()
        self._writer.close()
        return bytes(self._out.getvalue().to_pybytes())

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=ROWS_AT_ONCE)
            self._waiting, self._waiting_rows = [], 0


def _of_batch(rows: pa.RecordBatch, batch: int) -> pa.RecordBatch:
    """Changes with a column for their batch, for readers that read all rows of a file."""
    import pyarrow as pa

    if MERGED_BATCH in rows.schema.names:
        return rows
    field = pa.field(MERGED_BATCH, pa.int64())
    column = pa.repeat(pa.scalar(batch, pa.int64()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, column], schema=rows.schema.append(field))
