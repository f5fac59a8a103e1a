"""Record batches put aside until they can be written: in memory, and beyond a bound in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from keyfold.views import arrow as pa

MEMORY: Final = 8 * 1024 * 1024


class Spool:
    """Takes record batches of one schema and gives them back in order, once."""

    def __init__(self, schema: pa.Schema, directory: Path, memory: int = MEMORY) -> None:
        self.size = 0
        self._schema = schema
        self._directory = directory
        self._memory = memory
        self._held: list[pa.RecordBatch] = []
        self._file: IO[bytes] | None = None
        self._stream: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Puts a batch aside."""
        self.size += batch.nbytes
        if self._file is None and self.size > self._memory:
            self._spill()
        if self._file is None:
            self._held.append(batch)
        else:
            self._stream.write_batch(batch)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """All batches in order; afterwards the spool is empty."""
        if self._file is None:
            held, self._held = self._held, []
            yield from held
        else:
            self._stream.close()
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
        self.close()

    def close(self) -> None:
        """Forgets what is there."""
        self.size = 0
        self._held = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        # The file has no name, so that nothing is left of it after a kill; it lies beside the database, since
        # the system's directory for temporary files is often kept in memory.
        self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed in close()
        self._stream = pa.ipc.new_stream(self._file, self._schema)
        for batch in self._held:
            self._stream.write_batch(batch)
        self._held = []
