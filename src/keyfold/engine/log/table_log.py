"""Reads a log: its manifests in order, and the rows of their parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import Kind, Manifest, Part
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.stored_file import StoredFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS_AT_ONCE: Final = 20_000
_BYTES_AT_ONCE: Final = 1 << 20


class TableLog:
    """The log in a storage of its own, or in a directory; it need not exist yet."""

    def __init__(self, where: Storage | Path) -> None:
        self.storage = LocalStorage(where) if isinstance(where, Path) else where

    def file(self, batch: int) -> StoredFile:
        """The manifest's file."""
        return StoredFile(self.storage, f"{batch}.json")

    def batches(self) -> list[int]:
        """The batches that have a manifest, in order."""
        names = (name.removesuffix(".json") for name in self.storage.list() if name.endswith(".json"))
        return sorted(int(name) for name in names if name.isdecimal())

    def newest(self) -> int | None:
        """The newest batch that is published."""
        return max(self.batches(), default=None)

    def find(self, batch: int) -> Manifest | None:
        """The manifest of a batch, if it is published."""
        file = self.file(batch)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        return manifests.decode(content, file)

    def after(self, batch: int) -> Iterator[Manifest]:
        """The manifests of the batches after one, in order."""
        for number in self.batches():
            if number > batch and (found := self.find(number)) is not None:
                yield found

    def rows(
        self, manifest: Manifest, kind: Kind, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a kind that a batch has, part by part."""
        for part in manifest.of_kind(kind):
            yield from self.part_rows(part, columns)

    def part_rows(self, part: Part, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a part, a bounded number at a time."""
        with self._opened(part) as file:
            yield from file.iter_batches(_ROWS_AT_ONCE, columns=columns)

    def columns(self, part: Part) -> list[str]:
        """The names of the columns of a part."""
        with self._opened(part) as file:
            return list(file.schema_arrow.names)

    @contextmanager
    def _opened(self, part: Part) -> Iterator[pq.ParquetFile]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        stored = StoredFile(self.storage, part.path)
        try:
            with self.storage.fetched(part.path) as path:
                size = path.stat().st_size
                if size != part.bytes:
                    raise manifests.damaged(stored, f"it has {size:,} bytes, and had {part.bytes:,}")
                with pq.ParquetFile(path) as file:
                    yield file
        except FileNotFoundError:
            raise manifests.damaged(stored, "the file is missing") from None
        except pa.ArrowException as error:
            raise manifests.damaged(stored, str(error)) from None

    def has(self, part: Part) -> bool:
        """Whether the file of a part is there; changes are removed before side outputs."""
        return StoredFile(self.storage, part.path).exists()

    def verify(self, part: Part) -> None:
        """Reads all bytes of a part and compares their checksum."""
        stored, found = StoredFile(self.storage, part.path), 0
        try:
            with self.storage.fetched(part.path) as path, path.open("rb") as file:
                while block := file.read(_BYTES_AT_ONCE):
                    found = zlib.crc32(block, found)
        except FileNotFoundError:
            raise manifests.damaged(stored, "the file is missing") from None
        if part.checksum != f"crc32:{found:08x}":
            raise manifests.damaged(stored, f"its checksum is crc32:{found:08x}, and was {part.checksum}")
