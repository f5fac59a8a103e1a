"""A batch's manifest: the one file whose appearance publishes the batch.

`log/<batch>.json` lists the parts of the batch (Parquet files below `log/data`) with sizes and checksums, its
watermark and source offsets, and how many rows of each kind it has. Parts that no manifest lists are garbage
of an attempt that was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args

from keyfold.errors import HomeUnusable

LAYOUT: Final = 1
"""The version of the log's format on disk."""

Kind = Literal["change", "late", "rejected", "duplicate"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True)
class Part:
    """A file of a batch; `path` is relative to the log's directory."""

    path: str
    kind: Kind
    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Reason:
    """How many rows of a batch were rejected for reasons of one kind, and one of these reasons."""

    kind: str
    rows: int
    example: str


@dataclass(frozen=True)
class Manifest:
    """What a batch has published."""

    batch: int
    epoch: int
    at: datetime
    watermark: datetime | None
    counts: Mapping[str, int]
    parts: tuple[Part, ...] = ()
    reasons: tuple[Reason, ...] = ()
    offsets: tuple[Any, ...] = field(default=())

    def of_kind(self, kind: Kind) -> list[Part]:
        """The parts with rows of a kind."""
        return [part for part in self.parts if part.kind == kind]

    @property
    def has_its_changes(self) -> bool:
        """Whether the changes of the batch were kept, and not only counted."""
        return sum(part.rows for part in self.of_kind("change")) == self.counts["change"]

    def encode(self) -> bytes:
        """The manifest as it is on disk."""
        document = {
            "layout": LAYOUT,
            "epoch": self.epoch,
            "batch": self.batch,
            "at": self.at.isoformat(),
            "watermark": None if self.watermark is None else self.watermark.isoformat(),
            "offsets": self.offsets,
            "parts": [asdict(part) for part in self.parts],
            "counts": dict(self.counts),
            "reasons": [asdict(reason) for reason in self.reasons],
        }
        return json.dumps(document, ensure_ascii=False).encode()


def decode(content: bytes, file: object) -> Manifest:
    """The manifest in a file's content; `file` is named if that can't be read."""
    try:
        found = json.loads(content)
        if found["layout"] != LAYOUT:
            raise other_layout(file, found["layout"])
        return Manifest(
            batch=int(found["batch"]),
            epoch=int(found["epoch"]),
            at=datetime.fromisoformat(found["at"]),
            watermark=None if found["watermark"] is None else datetime.fromisoformat(found["watermark"]),
            counts={kind: int(found["counts"].get(kind, 0)) for kind in KINDS},
            parts=tuple(Part(**part) for part in found["parts"]),
            reasons=tuple(Reason(**reason) for reason in found["reasons"]),
            offsets=tuple(found["offsets"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise damaged(file, f"it is no manifest: {error}") from None


def damaged(file: object, why: str) -> HomeUnusable:
    """The error of a file of a log that is not what it was when it was published."""
    return HomeUnusable(
        f"{file} is damaged: {why}",
        given=file,
        hint="restore it from a backup of the home; or `keyfold reset TABLE`, after which the table and "
        "those that read it start from the first row",
    )


def other_layout(file: object, layout: object) -> HomeUnusable:
    """The error of a home that another version of keyfold wrote."""
    return HomeUnusable(
        f"{file} has layout {layout}, and this version of keyfold reads layout {LAYOUT}",
        given=file,
        hint="run the version of keyfold that wrote it",
    )
