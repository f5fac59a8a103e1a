"""Where the time of the newest batches went, by phase; a run keeps it in `batches.json` beside its status.

The file is the driver's own and can be lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.engine.storage.layout import AppHome

FILE: Final = "batches.json"
MOST: Final = 60
"""Of how many batches of a table it is kept."""


@dataclass(frozen=True)
class BatchTime:
    """A batch that has ended, and the milliseconds that its phases took; null where one was not measured."""

    batch: int
    at: datetime
    """When it began."""
    rows: int
    """Rows that it read."""
    plan: int
    """Finding its input and planning it."""
    fold: int
    """Reading rows, folding them and writing the log."""
    wait: int | None
    """Waiting for followers that are too far behind."""
    commit: int
    """Committing state and positions."""
    view: int | None
    """Writing the view, which goes on beside the next batch."""

    def values(self) -> list[Any]:
        """The fields as the file has them."""
        return [self.batch, self.at.timestamp(), *list(vars(self).values())[2:]]


def read(home: AppHome) -> dict[str, list[BatchTime]]:
    """The batches by table or stream, oldest first; none if the file is missing or damaged."""
    try:
        found = json.loads((home.local / FILE).read_text("utf-8"))["tables"]
        return {
            table: [BatchTime(batch, datetime.fromtimestamp(at, UTC), *more) for batch, at, *more in batches]
            for table, batches in found.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}
