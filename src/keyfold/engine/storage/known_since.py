"""The time since which the columns of a table cover rows: columns added later cover none before it."""

from __future__ import annotations

from collections.abc import Mapping
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


def known_since(plan: Mapping[str, Any] | None, table: str) -> dict[str, KnownSince]:
    """The columns of a table that do not cover all of its rows, as app.json records them."""
    entry = ((plan or {}).get("tables") or {}).get(table) or {}
    return {name: _read(one) for name, one in (entry.get("since") or {}).items()}


def _read(recorded: Any) -> KnownSince:
    # Migrations of earlier versions recorded only the time.
    found: dict[str, Any] = {"at": recorded, "batch": None} if isinstance(recorded, str) else recorded
    return KnownSince(datetime.fromisoformat(found["at"]), found["batch"])
