"""What the last start of an app recorded of its tables and streams in app.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyfold.engine.storage.known_since import KnownSince, known_since
from keyfold.engine.storage.layout import AppHome
from keyfold.read.names import Names


@dataclass(frozen=True)
class Recorded:
    """The contents of app.json; `plan` is None before the first start, or if the file is lost."""

    app: str
    plan: Mapping[str, Any] | None

    @property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """The tables that have run, and what their state is of."""
        return (self.plan or {}).get("tables") or {}

    @property
    def names(self) -> Names:
        """The tables that have run, with the streams that they read, and the declared streams."""
        read = {name: tuple(entry.get("streams", ())) for name, entry in self.tables.items()}
        return Names(self.app, read, [stream["name"] for stream in self._declared("streams")])

    def declared(self, table: str) -> Mapping[str, Any] | None:
        """The last declaration of a table, as `describe --json` has it; None if there is none."""
        return next((one for one in self._declared("tables") if one["name"] == table), None)

    def shared(self, table: str) -> Sequence[str]:
        """The streams that have a log of their own, which a table reads."""
        entry = next((one for name, one in self.tables.items() if name.lower() == table.lower()), {})
        return tuple(entry.get("shared", ()))

    def known_since(self, table: str) -> dict[str, KnownSince]:
        """Since when columns that a migration added cover rows; others cover all."""
        return known_since(self.plan, table)

    def initial(self, table: str) -> Mapping[str, Any] | None:
        """What a table began with, if not with its stream."""
        return (self.tables.get(table) or {}).get("initial")

    def _declared(self, kind: str) -> Sequence[Mapping[str, Any]]:
        return ((self.plan or {}).get("declared") or {}).get(kind) or ()


def recorded(home: AppHome) -> Recorded:
    """What an app's home records; `HomeUnusable` if that can't be read."""
    return Recorded(home.path.name, home.read_plan())
