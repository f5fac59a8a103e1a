"""The content of a savepoint: its manifest, `savepoints/<name>/savepoint.json`, which makes it exist."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.errors import SavepointUnusable

LAYOUT: Final = 1
"""The version of the savepoint's format."""
FILE: Final = "savepoint.json"


@dataclass(frozen=True)
class SavedFile:
    """A file of the home; `path` is relative to the app's directory, and to `files/` in the savepoint."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class SavedTable:
    """The position of a table: its newest committed batch, and the offsets that this had read."""

    batch: int | None
    watermark: str | None
    offsets: tuple[Any, ...]
    partitions: int | None
    state: tuple[FamilyDigest, ...] | None = None
    """The number of rows in its state, and a checksum over them; None if the state was not read back."""

    def document(self) -> dict[str, Any]:
        """The table for people and programs, without its offsets."""
        return {
            "batch": self.batch,
            "watermark": self.watermark,
            "partitions": self.partitions,
            "state": None if self.state is None else [asdict(family) for family in self.state],
        }


@dataclass(frozen=True)
class Savepoint:
    """A complete savepoint."""

    name: str
    app: str
    at: datetime
    user: str
    why: str | None
    live: bool
    spark: str
    home_layout: int
    tables: Mapping[str, SavedTable]
    files: tuple[SavedFile, ...]
    view: SavedFile | None
    """A copy of the view store, below the savepoint's own directory."""
    whole: bool
    """Whether it has all tables of the app at that time."""

    @property
    def size(self) -> int:
        """The size of all its files, whether or not the home shares them."""
        return sum(file.bytes for file in self.files) + (self.view.bytes if self.view else 0)

    def of_table(self, table: str) -> list[SavedFile]:
        """The files of one table."""
        return [file for file in self.files if file.path.startswith(f"tables/{table}/")]

    def document(self) -> dict[str, Any]:
        """The savepoint for people and programs, with the number and size of its files."""
        return {
            "name": self.name,
            "app": self.app,
            "at": self.at,
            "user": self.user,
            "why": self.why,
            "live": self.live,
            "whole": self.whole,
            "spark": self.spark,
            "files": len(self.files),
            "bytes": self.size,
            "tables": {name: table.document() for name, table in self.tables.items()},
        }

    def encode(self) -> bytes:
        """The manifest in its form on disk."""
        document = {"layout": LAYOUT, **asdict(self), "at": self.at.isoformat()}
        return json.dumps(document, ensure_ascii=False, indent=1).encode()


def decode(content: bytes, file: object) -> Savepoint:
    """The manifest in a file's content; `file` is named in the error if it can't be read."""
    try:
        found = json.loads(content)
        layout = found.pop("layout")
        if layout != LAYOUT:
            raise SavepointUnusable(
                f"{file} has layout {layout}, and this version of keyfold reads layout {LAYOUT}",
                given=file,
                hint="use the version of keyfold that wrote it",
            )
        tables = {name: _table(**table) for name, table in found.pop("tables").items()}
        files = tuple(SavedFile(**one) for one in found.pop("files"))
        view = found.pop("view")
        at = datetime.fromisoformat(found.pop("at"))
        return Savepoint(
            tables=tables, files=files, view=None if view is None else SavedFile(**view), at=at, **found
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SavepointUnusable(
            f"{file} is damaged: not a savepoint manifest: {error}",
            given=file,
            hint="restore the file from a backup, or delete the savepoint: keyfold savepoint delete NAME",
        ) from None


def _table(offsets: list[Any], state: list[dict[str, Any]] | None = None, **facts: Any) -> SavedTable:
    families = None if state is None else tuple(FamilyDigest(**family) for family in state)
    return SavedTable(offsets=tuple(offsets), state=families, **facts)
