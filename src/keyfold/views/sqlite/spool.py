"""A spool of record batches that wait to be written: in memory, and above a limit in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from keyfold.views import arrow as pa

MEMORY: Final = 8 * 1024 * 1024


class Spool:
    """Takes record batches of one schema and returns them in order, once."""

    def __init__(self, schema: pa.Schema, directory: Path, memory: int = MEMORY) -> None:
        self.size = 0
        self._schema = schema
        self._directory = directory
        self._memory = memory
        self._in_memory: list[pa.RecordBatch] = []
        self._file: IO[bytes] | None = None
        self._stream: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends a batch."""
        self.size += batch.nbytes
        if self._file is None and self.size > self._memory:
            self._spill()
        if self._file is None:
            self._in_memory.append(batch)
        else:
            self._stream.write_batch(batch)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """All batches in order; afterwards the spool is empty."""
        if self._file is None:
            batches, self._in_memory = self._in_memory, []
            yield from batches
        else:
            self._stream.close()
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
        self.close()

    def close(self) -> None:
        """Discards what is left."""
        self.size = 0
        self._in_memory = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        # The file has no name, so that a kill leaves nothing behind. It is next to the database, since the
        # system's directory for temporary files is often in memory.
        self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed in close()
        self._stream = pa.ipc.new_stream(self._file, self._schema)
        for batch in self._in_memory:
            self._stream.write_batch(batch)
        self._in_memory = []
