"""Changes on their way into a table: copied into a temporary table, then merged by one statement or two."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keyfold.views import arrow as pa
from keyfold.views.contract import Position
from keyfold.views.postgresql.conditions import codec_in
from keyfold.views.postgresql.sql import ViewTable
from keyfold.views.postgresql.temporal_text import TIMESTAMPS
from keyfold.views.types import epoch

if TYPE_CHECKING:
    import psycopg

_ROWS_AT_ONCE: Final = 50_000
Change: TypeAlias = "tuple[pa.RecordBatch, Position]"
"""Changes of canonical values, and the position of their batch."""


class Staging:
    """The changes of one view in one transaction."""

    def __init__(self, connection: psycopg.Connection[Any], table: ViewTable) -> None:
        self._connection, self._table = connection, table
        columns = (*table.schema.keys, *table.schema.columns)
        self._codecs = [codec_in(column, table.schema) for column in columns]
        self._staged = 0
        self._deletes = self._upserts = False
        connection.execute(table.create_staging, [])

    def add(self, changes: Iterable[Change]) -> None:
        """Copies changes in order; they are taken while they are sent."""
        with self._connection.cursor() as cursor, cursor.copy(self._table.copy, []) as copy:
            for batch, position in changes:
                for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                    copy.write(self._csv(batch.slice(start, _ROWS_AT_ONCE), position))

    def merge(self) -> None:
        """Applies the last change of each key to the table."""
        if self._deletes:
            self._connection.execute(self._table.delete_staged, [])
        if self._upserts:
            self._connection.execute(self._table.upsert_staged, [])

    def _csv(self, changes: pa.RecordBatch, position: Position) -> bytes:
        import numpy as np
        from pyarrow import csv

        rows = changes.num_rows
        gone = pa.compute.equal(changes.column(0), "delete")
        found = pa.compute.min_max(gone).as_py()
        self._deletes |= found["max"]
        self._upserts |= not found["min"]
        values = [
            codec.encode(column) for codec, column in zip(self._codecs, changes.columns[1:], strict=True)
        ]
        places = pa.array(np.arange(self._staged, self._staged + rows))
        batch = pa.repeat(pa.scalar(position.batch, pa.int64()), rows)
        at = pa.repeat(TIMESTAMPS.text(epoch.to_micros(position.at)), rows)
        self._staged += rows
        columns = [places, gone, *values, batch, at]
        table = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
        sink = io.BytesIO()
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False, batch_size=_ROWS_AT_ONCE))
        return sink.getvalue()
