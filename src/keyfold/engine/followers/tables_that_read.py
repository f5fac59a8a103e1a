"""The tables that read a table's log: queries of their own, which are notified of each batch."""

from __future__ import annotations

from keyfold.engine.log.manifest import Manifest
from keyfold.kernel.api import LogApi


class TablesThatRead:
    """Announces published batches to the sources that read a log, so that they need not list its directory.

    Their positions are in their own checkpoints (`engine/log/readers.py`), and nothing waits for them.
    """

    def __init__(self, kernel: LogApi, log: str) -> None:
        self._kernel, self._log = kernel, log

    def offer(self, manifest: Manifest) -> None:
        """Announces a batch whose manifest is in place."""
        self._kernel.published(self._log, manifest.batch)

    def announce_batch(self) -> None:
        """Does nothing: readers are only told of published batches."""

    def check(self) -> None:
        """Does nothing: their failures are those of their own queries."""

    def wait_for(self, batch: int, seconds: float | None = None) -> bool:
        """Does nothing: the log keeps whatever they have not read."""
        return True
