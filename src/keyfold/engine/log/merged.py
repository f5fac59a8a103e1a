"""Ranges of old batches whose parts were merged into a few files, under one manifest per range.

`log/merged/<first>-<last>.json` has the manifests of the batches of a range; their rows are slices of the
files in `log/merged/<first>-<last>-<id>`. When that manifest appears, the batches are in the log twice, with
the same rows; the replaced files are removed afterwards. A range inside another one has been merged again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import LAYOUT, Manifest
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import HomeLocked

MERGED: Final = "merged"
"""The directory of merged batches."""


@dataclass(frozen=True)
class Range:
    """A range of batches, both ends included; the numbers may have gaps."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __contains__(self, batch: int) -> bool:
        return self.first <= batch <= self.last

    @property
    def file(self) -> str:
        """The manifest of the range."""
        return f"{MERGED}/{self}.json"

    @classmethod
    def parse(cls, name: str) -> Range | None:
        """The range to which a manifest or directory belongs, by its name."""
        numbers = name.removesuffix(".json").split("-")[:2]
        if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
            return None
        return cls(*map(int, numbers))


class MergedRanges:
    """The merged ranges of a log. The directory is listed once: a log is not merged while an app runs."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ranges: tuple[Range, ...] | None = None
        # Batches are read in order, and a range may have thousands.
        self._last: tuple[Range, dict[int, Manifest]] | None = None

    def ranges(self) -> tuple[Range, ...]:
        """The ranges in order, without overlaps."""
        if self._ranges is None:
            names = [name for name in self._storage.list(MERGED) if name.endswith(".json")]
            found = [found for name in names if (found := Range.parse(name)) is not None]
            self._ranges = tuple(_outermost_ranges(found))
        return self._ranges

    def invalidate(self) -> None:
        """Lists the directory again on next use."""
        self._ranges = self._last = None

    def of(self, batch: int) -> Range | None:
        """The range with a batch."""
        return next((found for found in self.ranges() if batch in found), None)

    def find(self, batch: int) -> Manifest | None:
        """The manifest of a merged batch."""
        found = self.of(batch)
        return None if found is None else self._manifests(found).get(batch)

    def manifests(self, of: Range) -> list[Manifest]:
        """The manifests of a range, in order; empty if it has been removed."""
        return list(self._manifests(of).values())

    def publish(self, merged: Sequence[Manifest]) -> Range:
        """Publishes the manifests of a range, whose parts are slices of merged files."""
        of = Range(merged[0].batch, merged[-1].batch)
        if not self._storage.put_new(of.file, encode(merged)):
            raise HomeLocked(
                f"another process has merged batches {of}",
                given=StoredFile(self._storage, of.file),
                hint="run one command at a time on the app's home",
            )
        self.invalidate()
        return of

    def rewrite(self, of: Range, manifests: Sequence[Manifest]) -> None:
        """Replaces the manifests of a range, some of whose parts are to go."""
        self._storage.put(of.file, encode(manifests))
        self.invalidate()

    def remove(self, of: Range) -> None:
        """Removes a range with its files."""
        self._storage.delete(of.file)
        for name in self.directories():
            if Range.parse(name) == of:
                self._storage.delete(f"{MERGED}/{name}", durable=False)
        self.invalidate()

    def directories(self) -> list[str]:
        """The directories with merged files, including those of interrupted attempts."""
        return [name for name in self._storage.list(MERGED) if not name.endswith(".json")]

    def sweep(self) -> None:
        """Removes what killed processes left: files without a range, and ranges that were merged again."""
        kept = self.ranges()
        for name in self._storage.list(MERGED):
            if name.endswith(".json") and Range.parse(name) not in kept:
                self._storage.delete(f"{MERGED}/{name}")
        listed = {part.path.split("/")[1] for of in kept for m in self.manifests(of) for part in m.parts}
        for name in self.directories():
            if name not in listed:
                self._storage.delete(f"{MERGED}/{name}", durable=False)

    def _manifests(self, of: Range) -> dict[int, Manifest]:
        last = self._last
        if last is not None and last[0] == of:
            return last[1]
        file = StoredFile(self._storage, of.file)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return {}
        with manifests.readable(file):
            document = json.loads(content)
            manifests.require_layout(file, document)
            found = {m.batch: m for m in map(manifests.of_document, document["batches"])}
        self._last = (of, found)
        return found


def encode(merged: Sequence[Manifest]) -> bytes:
    """The manifests of a range as they are on disk."""
    document = {"layout": LAYOUT, "batches": [manifest.document() for manifest in merged]}
    return json.dumps(document, ensure_ascii=False).encode()


def _outermost_ranges(ranges: Sequence[Range]) -> Iterator[Range]:
    upto = -1
    for one in sorted(ranges, key=lambda one: (one.first, -one.last)):
        if one.last > upto:
            yield one
            upto = one.last
