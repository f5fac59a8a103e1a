"""How large the tables of an app were over time: a sample a minute, in `sizes.json` beside the status.

The file is the driver's own and can be lost. It stays small: of old samples, fewer and fewer are kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Final

from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.layout import AppHome
from keyfold.read.metrics import RunStatus

EVERY_SECONDS: Final = 60.0
_MOST: Final = 600
_FILE: Final = "sizes.json"


@dataclass(frozen=True)
class SizeSample:
    """A table's size at a moment: its rows, and the bytes of its state in RocksDB, as `status` has them."""

    at: float
    """In seconds since the epoch."""
    batch: int
    rows: int | None
    bytes: int | None


def read(home: AppHome) -> dict[str, list[SizeSample]]:
    """All samples by table, oldest first; none if the file is missing or damaged."""
    try:
        found = json.loads((home.local / _FILE).read_text("utf-8"))
        return {table: [SizeSample(*one) for one in samples] for table, samples in found["tables"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


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
            sample = SizeSample(at, batch, metrics.keys, metrics.state_bytes)
            self._samples[table] = thin([*known, sample])
            changed = True
        if changed:
            tables = {name: [astuple(one) for one in found] for name, found in self._samples.items()}
            content = json.dumps({"tables": tables}).encode()
            replace_file(self._home.local / _FILE, content, durable=False)


def _seconds(at: datetime) -> float:
    return round(at.timestamp(), 1)


def thin(samples: Sequence[SizeSample]) -> list[SizeSample]:
    """All samples while they are few; else every second one of the older half, and all of the newer."""
    if len(samples) <= _MOST:
        return list(samples)
    middle = len(samples) // 2
    return [*samples[:middle:2], *samples[middle:]]


def of_one_life(samples: Sequence[SizeSample]) -> list[SizeSample]:
    """The samples since the table began: after a reset or a restore, batch numbers start over."""
    begun = max((n for n in range(1, len(samples)) if samples[n].batch < samples[n - 1].batch), default=0)
    return list(samples[begun:])
