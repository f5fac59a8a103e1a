"""Which files a batch of a table has read, from the logs of its file sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from keyfold.engine.storage.source_offsets import FilesOffset, SourceOffset
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.engine.storage.stored_file import StoredFile

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
        yield from _files(checkpoint.sources.entries(log), after, entries[number])


def _files(logged: Mapping[int, StoredFile], after: int, upto: int) -> Iterator[tuple[str, list[str]]]:
    """The first files of each stream in the entries behind one, up to another one."""
    found: dict[str, dict[str, None]] = {}
    try:
        for file in _between(logged, after, upto):
            stream, _, below = file["path"].partition(":")
            if stream and after < file["batchId"] <= upto:
                names = found.setdefault(stream, {})
                names[below.lstrip("/")] = None
                if len(names) == MOST:
                    break
    except FileNotFoundError:
        # Spark removes entries some time after it has written these into a later one.
        return
    yield from ((stream, list(names)) for stream, names in found.items())


def _between(logged: Mapping[int, StoredFile], after: int, upto: int) -> Iterator[Any]:
    """The files in these entries; a compacted entry has those of all earlier ones too."""
    known = after
    for number in sorted(one for one in logged if one > after):
        if known >= upto:
            return
        entry = logged[number]
        if entry.suffix or number == known + 1:
            known = number
            yield from map(json.loads, entry.read_text().split("\n")[1:])
    if known < upto:
        raise FileNotFoundError(f"entry {known + 1}")
