"""The result of an erasure in a home, or in one of its savepoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from keyfold.engine.storage.state_digest import FamilyDigest


@dataclass
class Erased:
    """The result of an erasure in a home, or in one of its savepoints."""

    batch: int | None = None
    state: int = 0
    view: int = 0
    log: dict[str, int] = field(default_factory=dict)
    streams: dict[str, dict[str, int]] = field(default_factory=dict)
    replayed: int = 0
    by_word: int = 0
    """The number of text rows removed because they have the key as a word."""
    not_searched: list[str] = field(default_factory=list)
    left: tuple[FamilyDigest, ...] = ()
    """The state after the erasure."""
    keys: set[tuple[str, ...]] = field(default_factory=set)
    """The keys in state, view and log, as text."""
    table: str | None = None
    """The table's name there, if it differs."""

    @property
    def anything(self) -> bool:
        """Whether there was a trace of the key."""
        return bool(self.state or self.view or self.log or self.streams or self.replayed)

    def document(self) -> dict[str, Any]:
        """The form in the receipt."""
        side = {"log": self.log, "streams": self.streams, "replayed_rows": self.replayed}
        side["found_by_word"] = self.by_word
        rows = {"keys": len(self.keys), "state_rows": self.state, "view_rows": self.view, **side}
        named = {} if self.table is None else {"table": self.table}
        return {**named, **rows, "not_searched": self.not_searched}
