"""A batch's manifest: the one file whose appearance publishes the batch.

`log/<batch>.json` lists the parts of the batch (Parquet files below `log/data`) with sizes and checksums, its
watermark and source offsets, and its number of rows of each kind. Parts that no manifest lists are garbage of
an interrupted attempt.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args

from keyfold.errors import HomeUnusable

LAYOUT: Final = 1
"""The version of the log's format on disk."""

Kind = Literal["change", "late", "rejected", "duplicate"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
COUNTED: Final = (*KINDS, "dropped_partial")
"""The counters of a manifest: rows by kind, and the partial matches dropped because of a pattern's limit."""


@dataclass(frozen=True)
class Part:
    """Rows of a batch in a file; `path` is relative to the log's directory.

    `first`: in a file that has rows of other batches too, the position of the batch's first row. `bytes` and
    `checksum` are those of the file.
    """

    path: str
    kind: Kind
    rows: int
    bytes: int
    checksum: str
    first: int | None = None


def part_of(path: str, kind: Kind, rows: int, content: bytes) -> Part:
    """The part that a file with this content is."""
    return Part(path, kind, rows, len(content), checksum_text(zlib.crc32(content)))


def checksum_text(crc: int) -> str:
    """A checksum as manifests have it."""
    return f"crc32:{crc:08x}"


@dataclass(frozen=True)
class Reason:
    """The number of rows of a batch rejected for reasons of one kind, and an example of these reasons."""

    kind: str
    rows: int
    example: str


@dataclass(frozen=True)
class Manifest:
    """The content of a published batch.

    `previous`: the batch published before it, None for the first one. Since numbers may have gaps, this
    distinguishes a gap from a lost manifest.
    """

    batch: int
    epoch: int
    at: datetime
    watermark: datetime | None
    counts: Mapping[str, int]
    parts: tuple[Part, ...] = ()
    reasons: tuple[Reason, ...] = ()
    offsets: tuple[Any, ...] = field(default=())
    previous: int | None = None
    times: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The newest event time of each partition that a stream of Kafka has read, in milliseconds."""

    def of_kind(self, kind: Kind) -> list[Part]:
        """The parts with rows of a kind."""
        return [part for part in self.parts if part.kind == kind]

    @property
    def has_its_changes(self) -> bool:
        """Whether the changes of the batch were written, not only counted."""
        return sum(part.rows for part in self.of_kind("change")) == self.counts["change"]

    def document(self) -> dict[str, Any]:
        """The manifest as a JSON document."""
        return {
            "layout": LAYOUT,
            "epoch": self.epoch,
            "batch": self.batch,
            "previous": self.previous,
            "at": self.at.isoformat(),
            "watermark": None if self.watermark is None else self.watermark.isoformat(),
            "offsets": self.offsets,
            "parts": [_present(part) for part in self.parts],
            "counts": dict(self.counts),
            "reasons": [asdict(reason) for reason in self.reasons],
            **({"times": self.times} if self.times else {}),
        }

    def encode(self) -> bytes:
        """The manifest in its form on disk."""
        return json.dumps(self.document(), ensure_ascii=False).encode()


def _present(part: Part) -> dict[str, Any]:
    return {name: value for name, value in asdict(part).items() if value is not None}


def decode(content: bytes, file: object) -> Manifest:
    """The manifest in a file's content; `file` is named in the error if it can't be read."""
    with readable(file):
        found = json.loads(content)
        require_layout(file, found)
        return of_document(found)


def of_document(found: Mapping[str, Any]) -> Manifest:
    """The manifest in a JSON document."""
    return Manifest(
        batch=int(found["batch"]),
        epoch=int(found["epoch"]),
        at=datetime.fromisoformat(found["at"]),
        watermark=None if found["watermark"] is None else datetime.fromisoformat(found["watermark"]),
        counts={kind: int(found["counts"].get(kind, 0)) for kind in COUNTED},
        parts=tuple(Part(**part) for part in found["parts"]),
        reasons=tuple(Reason(**reason) for reason in found["reasons"]),
        offsets=tuple(found["offsets"]),
        previous=None if found["previous"] is None else int(found["previous"]),
        times=found.get("times", {}),
    )


@contextmanager
def readable(file: object) -> Iterator[None]:
    """Names the file in the error if its content is not a document of a log."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        raise damage_error(file, f"not a manifest: {error}") from None


def require_layout(file: object, document: Mapping[str, Any]) -> None:
    """Refuses a document written by another version of keyfold."""
    if document["layout"] != LAYOUT:
        raise other_layout(file, document["layout"])


def damage_error(file: object, why: str) -> HomeUnusable:
    """The error for a file of a log that has changed since it was published."""
    return HomeUnusable(
        f"{file} is damaged: {why}",
        given=file,
        hint="restore it from a backup of the home; or `keyfold reset TABLE`, after which the table and "
        "those that read it start from the first row",
    )


def other_layout(file: object, layout: object) -> HomeUnusable:
    """The error for a home written by another version of keyfold."""
    return HomeUnusable(
        f"{file} has layout {layout}, and this version of keyfold reads layout {LAYOUT}",
        given=file,
        hint="run the version of keyfold that wrote it",
    )
