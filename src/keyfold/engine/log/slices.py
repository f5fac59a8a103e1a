"""Reads the rows of one batch from a file with the rows of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from keyfold.engine.log.manifest import Part

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class Slices:
    """Caches the last row group: batches are read in order, and a group has the rows of many."""

    def __init__(self, opened: Callable[[Part], AbstractContextManager[pq.ParquetFile]]) -> None:
        self._opened = opened
        self._last: tuple[object, int, pa.Table] | None = None

    def rows(self, part: Part, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part that is a slice of its file."""
        assert part.first is not None
        at, end = part.first, part.first + part.rows
        while at < end:
            first, group = self._group(part, at, columns)
            rows = min(end, first + group.num_rows) - at
            yield from group.slice(at - first, rows).to_batches()
            at += rows

    def _group(self, part: Part, row: int, columns: Sequence[str] | None) -> tuple[int, pa.Table]:
        """The row group of a row, and the position of the group's first row."""
        key = (part.path, None if columns is None else tuple(columns))
        last = self._last
        if last is not None and last[0] == key and last[1] <= row < last[1] + last[2].num_rows:
            return last[1:]
        with self._opened(part) as file:
            first, number = 0, 0
            while first + (size := file.metadata.row_group(number).num_rows) <= row:
                first, number = first + size, number + 1
            group = file.read_row_group(number, columns=columns)
        self._last = (key, first, group)
        return first, group
