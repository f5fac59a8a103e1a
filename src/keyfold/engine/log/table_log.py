"""Reads a log: its manifests in order, and the rows of their parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import Kind, Manifest, Part
from keyfold.engine.log.merged import MergedRanges
from keyfold.engine.log.slices import Slices
from keyfold.engine.log.totals import read_totals
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.stored_file import StoredFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_AT_ONCE: Final = 20_000
"""The number of rows read from a part at a time, and the size of a row group in a merged file."""
_BYTES_AT_ONCE: Final = 1 << 20


class TableLog:
    """The log in a storage of its own, or in a directory; it need not exist yet.

    `upto`: later batches, which are among the newest, are left out.
    """

    def __init__(self, where: Storage | Path, upto: int | None = None) -> None:
        self._upto = upto
        self.storage = LocalStorage(where) if isinstance(where, Path) else where
        self.merged = MergedRanges(self.storage)
        self._slices = Slices(self._open)

    def file(self, batch: int) -> StoredFile:
        """The manifest's own file, which it has until it is merged with others."""
        return StoredFile(self.storage, f"{batch}.json")

    def batches(self) -> list[int]:
        """The batches with a manifest, in order."""
        merged = (m.batch for of in self.merged.ranges() for m in self.merged.manifests(of))
        return sorted({*self.own_batches(), *merged})

    def own_batches(self) -> list[int]:
        """The batches with a manifest in a file of its own, in order."""
        names = (name.removesuffix(".json") for name in self.storage.list() if name.endswith(".json"))
        batches = sorted(int(name) for name in names if name.isdecimal())
        return [batch for batch in batches if self._upto is None or batch <= self._upto]

    def newest(self) -> int | None:
        """The newest published batch."""
        return max([*self.own_batches(), *(of.last for of in self.merged.ranges())], default=None)

    def find(self, batch: int) -> Manifest | None:
        """The manifest of a batch, if it is published."""
        return self._own(batch) or self.merged.find(batch)

    def _own(self, batch: int) -> Manifest | None:
        file = self.file(batch)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        return manifests.decode(content, file)

    def after(self, batch: int) -> Iterator[Manifest]:
        """The manifests of the batches after one, in order; a missing one between them is an error."""
        last = batch
        for found in self._after(batch):
            if found.previous is not None and found.previous > last:
                self._refuse_missing(found.previous)
            yield found
            last = found.batch

    def newest_change(self, after: int = -1) -> int | None:
        """The newest batch with changes after a given one; None if a follower there has all of them.

        A table that reads the log stays behind batches without changes until there is something to read.
        """
        return max((found.batch for found in self.after(after) if found.counts["change"]), default=None)

    def _after(self, batch: int) -> Iterator[Manifest]:
        own = iter([number for number in self.own_batches() if number > batch])
        number = next(own, None)
        for of in self.merged.ranges():
            if of.last <= batch:
                continue
            while number is not None and number < of.first:
                yield from self._find(number)
                number = next(own, None)
            yield from (found for found in self.merged.manifests(of) if found.batch > batch)
            while number is not None and number <= of.last:
                number = next(own, None)
        while number is not None:
            yield from self._find(number)
            number = next(own, None)

    def _find(self, batch: int) -> list[Manifest]:
        """The manifest of a listed batch; None if it has been removed since."""
        found = self.find(batch)
        if found is None:
            # Another process may have merged it.
            self.merged.invalidate()
            found = self.merged.find(batch)
        return [] if found is None else [found]

    def _refuse_missing(self, batch: int) -> None:
        if batch > read_totals(self.storage).upto:
            raise manifests.damage_error(self.file(batch), "the file is missing, and the next batch names it")

    def rows(
        self, manifest: Manifest, kind: Kind, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a kind in a batch, part by part."""
        for part in manifest.of_kind(kind):
            yield from self.part_rows(part, columns)

    def part_rows(self, part: Part, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a part, a bounded number at a time."""
        if part.first is not None:
            yield from self._slices.rows(part, columns)
            return
        with self._open(part) as file:
            yield from file.iter_batches(ROWS_AT_ONCE, columns=columns)

    def schema(self, part: Part) -> pa.Schema:
        """The columns of a part."""
        with self._open(part) as file:
            return file.schema_arrow

    @contextmanager
    def _open(self, part: Part) -> Iterator[pq.ParquetFile]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        stored = StoredFile(self.storage, part.path)
        try:
            with self.storage.fetch(part.path) as path:
                size = path.stat().st_size
                if size != part.bytes:
                    raise manifests.damage_error(stored, f"it has {size:,} bytes, and had {part.bytes:,}")
                with pq.ParquetFile(path) as file:
                    yield file
        except FileNotFoundError:
            raise manifests.damage_error(stored, "the file is missing") from None
        except pa.ArrowException as error:
            raise manifests.damage_error(stored, str(error)) from None

    def has(self, part: Part) -> bool:
        """Whether the file of a part exists; changes are removed before side outputs."""
        return StoredFile(self.storage, part.path).exists()

    def verify(self, part: Part) -> None:
        """Reads all bytes of a part and compares their checksum."""
        stored, found = StoredFile(self.storage, part.path), 0
        try:
            with self.storage.fetch(part.path) as path, path.open("rb") as file:
                while block := file.read(_BYTES_AT_ONCE):
                    found = zlib.crc32(block, found)
        except FileNotFoundError:
            raise manifests.damage_error(stored, "the file is missing") from None
        if part.checksum != (now := manifests.checksum_text(found)):
            raise manifests.damage_error(stored, f"its checksum is {now}, and was {part.checksum}")
