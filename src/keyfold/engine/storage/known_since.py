"""The time since which the columns of a table cover rows: columns added later cover none before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class KnownSince:
    """A column covers the rows of batches after `batch`, which ended by `at`.

    `batch` is None for a table that was rebuilt from recorded rows: its batch numbers start over, and `at` is
    when the first of those rows was recorded.
    """

    at: datetime
    batch: int | None

    def document(self) -> dict[str, Any]:
        """The form in app.json and `--json`."""
        return {"at": self.at.isoformat(), "batch": self.batch}

    @classmethod
    def from_json(cls, recorded: Any) -> KnownSince:
        """Reads what app.json has."""
        # Migrations of earlier versions recorded only the time.
        found: dict[str, Any] = {"at": recorded, "batch": None} if isinstance(recorded, str) else recorded
        return cls(datetime.fromisoformat(found["at"]), found["batch"])
