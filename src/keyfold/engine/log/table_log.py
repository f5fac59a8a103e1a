"""Reads a log: its manifests in order, and the rows of their parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import Kind, Manifest, Part

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS_AT_ONCE: Final = 20_000
_BYTES_AT_ONCE: Final = 1 << 20


class TableLog:
    """The log in a directory; it need not exist yet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def file(self, batch: int) -> Path:
        """The manifest's file."""
        return self.directory / f"{batch}.json"

    def batches(self) -> list[int]:
        """The batches that have a manifest, in order."""
        return sorted(int(file.stem) for file in self.directory.glob("[0-9]*.json"))

    def newest(self) -> int | None:
        """The newest batch that is published."""
        return max((int(file.stem) for file in self.directory.glob("[0-9]*.json")), default=None)

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

        path = self.directory / part.path
        try:
            size = path.stat().st_size
            if size != part.bytes:
                raise manifests.damaged(path, f"it has {size:,} bytes, and had {part.bytes:,}")
            with pq.ParquetFile(path) as file:
                yield file
        except FileNotFoundError:
            raise manifests.damaged(path, "the file is missing") from None
        except pa.ArrowException as error:
            raise manifests.damaged(path, str(error)) from None

    def verify(self, part: Part) -> None:
        """Reads all bytes of a part and compares their checksum."""
        path, found = self.directory / part.path, 0
        try:
            with path.open("rb") as file:
                while block := file.read(_BYTES_AT_ONCE):
                    found = zlib.crc32(block, found)
        except FileNotFoundError:
            raise manifests.damaged(path, "the file is missing") from None
        if part.checksum != f"crc32:{found:08x}":
            raise manifests.damaged(path, f"its checksum is crc32:{found:08x}, and was {part.checksum}")
