"""What the batch that a view shows was computed from: positions in topics of Kafka, and batches of logs.

A query's checkpoint, and the manifests of its batches, have the positions of its sources. Of a source that is
the log of a table, or of a stream that several tables share, the position is a batch of that log, whose
own query has positions in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from keyfold.engine.log import readers
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.source_offsets import MessagesOffset, SourceOffset, parse_offset
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import QueryError


@dataclass
class ReadUpto:
    """What a batch was computed from."""

    sources: list[Mapping[str, Mapping[str, int]]] = field(default_factory=list)
    """Of each source that reads Kafka, the next message of each partition of its topics."""
    logs: dict[str, int] = field(default_factory=dict)
    """The last batch of each log; of one that is read several times, that of the slowest reading."""
    streams: set[str] = field(default_factory=set)

    def next_message(self, topic: str, partition: int) -> int:
        """The next message that the slowest reading of a partition reads."""
        found = [one[topic].get(str(partition), 0) for one in self.sources if topic in one]
        return min(found, default=0)

    @property
    def topics(self) -> set[str]:
        """The topics of which a position is known."""
        return {topic for one in self.sources for topic in one}


def of_batch(home: AppHome, table: str, batch: int) -> ReadUpto:
    """What a batch of a table was computed from; -1: nothing yet."""
    found = ReadUpto()
    _collect(home, home.read_plan(), table, home.table(table), batch, found)
    return found


def _collect(home: AppHome, stored: StoredApp, name: str, of: TableHome, batch: int, found: ReadUpto) -> None:
    """Adds what a batch of a table, or of a stream's log, has read, and what that was computed from."""
    found.logs[name] = min(batch, found.logs.get(name, batch))
    table = stored.table(name)
    found.streams |= {*table.streams, *table.shared} if name in stored.tables else {name}
    offsets = _offsets(of, name, batch) if batch >= 0 else []
    found.sources += [one.next for one in offsets if isinstance(one, MessagesOffset)]
    for use in readers.recorded(name, of, table.tables, table.shared):
        read = readers.offset_among(use, of, offsets)
        upstream = use.upstream(home)
        _collect(home, stored, use.table, upstream, _without_changes(upstream, read), found)


def _offsets(home: TableHome, name: str, batch: int) -> list[SourceOffset]:
    """The position of each source after a batch, from the checkpoint or, without it, from the manifest.

    Only the checkpoint tells that a source was replaced, so that its positions do not count any more.
    """
    with suppress(FileNotFoundError):
        return home.spark.offsets(batch)
    manifest = TableLog(home.log_files).find(batch)
    if manifest is not None and manifest.offsets:
        return [parse_offset(document) for document in manifest.offsets]
    raise QueryError(
        f"what batch {batch} of {name} has read is not recorded any more",
        reason="not_ready",
        where=f"{home.path.parents[1].name}.{name}",
        hint="the next batch records it; until then ask for a batch with at_least",
    )


def _without_changes(home: TableHome, batch: int) -> int:
    """The last of the batches after one that have no changes: a reader stays behind these on purpose."""
    for manifest in TableLog(home.log_files).after(batch):
        if manifest.counts["change"]:
            break
        batch = manifest.batch
    return batch
