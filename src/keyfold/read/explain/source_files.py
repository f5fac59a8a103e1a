"""Which files a batch of a table has read, from the logs of its file sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from keyfold.engine.storage.source_offsets import FilesOffset, SourceOffset
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint

MOST: Final = 100


def read(
    checkpoint: SparkCheckpoint, now: Sequence[SourceOffset], before: Sequence[SourceOffset] | None
) -> Iterator[tuple[str, list[str]]]:
    """The streams of files, each with the files between two offsets; none if these are not known.

    Files of the home itself, such as replayed rows, are left out.
    """
    entries = {number: one.entry for number, one in enumerate(now) if isinstance(one, FilesOffset)}
    logs = checkpoint.sources.directories()
    numbers = {int(log.name) for log in logs}
    begun = {number for number, entry in entries.items() if entry >= 0}
    if before is None or not begun <= numbers <= entries.keys():
        # A source that the plan has several times has several positions and one log.
        return
    for log in logs:
        number = int(log.name)
        earlier = before[number] if number < len(before) else None
        after = earlier.entry if isinstance(earlier, FilesOffset) else -1
        found: dict[str, list[str]] = {}
        for _, entry in sorted(checkpoint.sources.entries(log).items()):
            for line in entry.read_text().split("\n")[1:]:
                file = json.loads(line)
                stream, _, below = file["path"].partition(":")
                if stream and after < file["batchId"] <= entries[number]:
                    names = found.setdefault(stream, [])
                    if below not in names:
                        names.append(below)
        yield from ((stream, [one.lstrip("/") for one in names[:MOST]]) for stream, names in found.items())
