"""A table that is ready beside the home, as the record of a migration has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyfold.engine.storage.stored_app import StoredStream, StoredTable
from keyfold.views.contract import ViewSchema


@dataclass(frozen=True)
class PreparedView:
    """A view whose rows are in a file beside the home."""

    schema: str
    """Its columns, as JSON."""
    at: datetime
    watermark: datetime | None

    def schema_of(self, table: str) -> ViewSchema:
        """The columns of the view of a table."""
        return ViewSchema.from_json(table, self.schema)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> PreparedView:
        """Reads what a record has."""
        watermark = found["watermark"]
        at = datetime.fromisoformat(found["at"])
        return cls(found["schema"], at, None if watermark is None else datetime.fromisoformat(watermark))

    def to_json(self) -> dict[str, Any]:
        """The view as data."""
        watermark = None if self.watermark is None else self.watermark.isoformat()
        return {"schema": self.schema, "at": self.at.isoformat(), "watermark": watermark}


@dataclass(frozen=True)
class PreparedTable:
    """A table whose new files are complete."""

    table: str
    batch: int
    """Its newest batch, of which the view is."""
    entry: StoredTable
    """What app.json is to have of it."""
    was: str | None = None
    """The name that it has in the home, if it gets another one."""
    rebuilt: str | None = None
    """The directory of all of its files, if it was recreated; otherwise it has a new checkpoint."""
    keys: int | None = None
    view: PreparedView | None = None
    """Without one, the next start builds it."""
    key: Mapping[str, str] | None = None
    """The key as it is declared, for commands that look it up."""
    new_view: bool = False
    """Whether the view is put there even if the home has none yet."""
    streams: Mapping[str, StoredStream] = field(default_factory=dict)
    """What app.json is to have of streams that it does not know yet."""

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> PreparedTable:
        """Reads what a record has."""
        return cls(
            found["table"],
            found["batch"],
            StoredTable.from_json(found["entry"]),
            found["was"],
            found["rebuilt"],
            found["keys"],
            None if found["view"] is None else PreparedView.from_json(found["view"]),
            found.get("key"),
            bool(found.get("new_view")),
            {name: StoredStream.from_json(one) for name, one in found.get("streams", {}).items()},
        )

    def to_json(self) -> dict[str, Any]:
        """The table as data."""
        key = {} if self.key is None else {"key": self.key}
        return {
            **{name: value for name, value in vars(self).items() if name != "key"},
            **key,
            "entry": self.entry.to_json(),
            "view": None if self.view is None else self.view.to_json(),
            "streams": {name: one.to_json() for name, one in self.streams.items()},
        }
