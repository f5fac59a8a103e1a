"""Records the figures of an app's tables: a sample a minute, in a file that `keyfold.read.trends` reads.

The file stays small: of old samples, fewer and fewer are kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Final

from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.layout import AppHome
from keyfold.read.metrics import RunStatus, TableStatus
from keyfold.read.trends import FILE, Sample, read

EVERY_SECONDS: Final = 60.0
_MOST: Final = 600


class SizeHistory:
    """Adds samples of a running app to what earlier runs recorded."""

    def __init__(self, home: AppHome) -> None:
        self._home = home
        self._samples = read(home)

    def add(self, status: RunStatus, *, last: bool = False) -> None:
        """Takes a sample of each table from a status, unless the last one is recent; `last`: the run ends."""
        changed = False
        if status.at is None:
            return
        at = _seconds(status.at)
        for table, metrics in status.tables.items():
            batch, known = metrics.batch, self._samples.get(table, [])
            if batch is None or (known and known[-1].batch == batch):
                continue
            if known and at - known[-1].at < EVERY_SECONDS and batch > known[-1].batch:
                if not last:
                    continue
                # The end of a short run is more informative than its beginning.
                known = known[:-1]
            self._samples[table] = thin([*known, _sample(at, batch, metrics)])
            changed = True
        if changed:
            tables = {name: [astuple(one) for one in found] for name, found in self._samples.items()}
            content = json.dumps({"tables": tables}).encode()
            replace_file(self._home.local / FILE, content, durable=False)


def _sample(at: float, batch: int, table: TableStatus) -> Sample:
    return Sample(
        at=at,
        batch=batch,
        rows=table.keys,
        bytes=table.state_bytes,
        read=table.rows,
        batch_ms=table.batch_ms,
        late=table.late,
        rejected=table.rejected,
        lag_seconds=None if table.lag_seconds is None else round(table.lag_seconds, 3),
        messages_left=table.messages_left,
    )


def _seconds(at: datetime) -> float:
    return round(at.timestamp(), 1)


def thin(samples: Sequence[Sample]) -> list[Sample]:
    """All samples while they are few; else every second one of the older half, and all of the newer."""
    if len(samples) <= _MOST:
        return list(samples)
    middle = len(samples) // 2
    return [*samples[:middle:2], *samples[middle:]]
