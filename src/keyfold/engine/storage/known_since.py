"""Since when the columns of a table cover rows: those that a migration added cover none before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class KnownSince:
    """A column counts the rows of batches after one, which ended by then.

    `batch` is None for a table that was rebuilt from recorded rows: its batches are counted anew, and `at` is
    when the first of those rows was recorded.
    """

    at: datetime
    batch: int | None

    def document(self) -> dict[str, Any]:
        """As app.json and `--json` have it."""
        return {"at": self.at.isoformat(), "batch": self.batch}


def known_since(plan: Mapping[str, Any] | None, table: str) -> dict[str, KnownSince]:
    """The columns of a table that do not know of all its rows, from what app.json records."""
    entry = ((plan or {}).get("tables") or {}).get(table) or {}
    return {name: _read(one) for name, one in (entry.get("since") or {}).items()}


def _read(recorded: Any) -> KnownSince:
    # Migrations once recorded the time alone.
    found: dict[str, Any] = {"at": recorded, "batch": None} if isinstance(recorded, str) else recorded
    return KnownSince(datetime.fromisoformat(found["at"]), found["batch"])
