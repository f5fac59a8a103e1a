"""The tables that read the log of a table or a stream, and how far each has read.

Each use has a directory in the home of the reading table, `inputs/<n>-<table>`. Its `use.json` says where
Spark's offset log has the use's offset, which is the newest batch that was read; a reader that began later
than the table has a snapshot there until its first batches are committed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from keyfold.engine.log.manifest import LAYOUT
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.source_offsets import BatchOffset, SourceOffset
from keyfold.plan import nodes, tree
from keyfold.plan.nodes import AppSpec, TableSpec

SNAPSHOT: Final = "snapshot.json"
"""The file that records a snapshot, in a form that the kernel reads like a manifest."""


@dataclass(frozen=True)
class Use:
    """One place in a table's declaration that reads the log of another table, or of a stream.

    `previous`: whether it needs the row before each change.
    """

    reader: str
    number: int
    table: str
    previous: bool = False
    stream: bool = False

    def upstream(self, home: AppHome) -> TableHome:
        """The home of the table or stream that is read."""
        return home.stream_home(self.table) if self.stream else home.table(self.table)

    def directory(self, reader: TableHome) -> Storage:
        """The directory of the reader's files for this use."""
        return reader.storage.below(f"inputs/{self.number}-{self.table}")


def uses(spec: TableSpec) -> list[Use]:
    """The other tables whose changes a table reads, except those joined as of event time."""
    return [
        Use(spec.name, number, node.table, previous=isinstance(node, nodes.Changes))
        for number, node in enumerate(tree.reads(spec.input))
        if isinstance(node, nodes.Changes) or node.as_of == "arrival"
    ]


def readers(spec: AppSpec, table: str) -> list[Use]:
    """All uses of a table in the app."""
    return [use for reader in spec.tables for use in uses(reader) if use.table == table]


def recorded(
    reader: str, home: TableHome, tables: Collection[str], streams: Collection[str] = ()
) -> list[Use]:
    """The uses that have a directory, of these tables and streams alone, by number.

    The directories of what an earlier definition read may be there still.
    """
    found = []
    for directory in home.storage.list("inputs"):
        number, _, table = directory.partition("-")
        if number.isdecimal() and (table in tables or table in streams):
            found.append(Use(reader, int(number), table, stream=table in streams))
    return sorted(found, key=lambda use: use.number)


def record(use: Use, home: TableHome, positions: Sequence[int]) -> None:
    """Records where the offset log of a reader's query has the offsets of a use."""
    document = {"layout": LAYOUT, "positions": list(positions)}
    use.directory(home).put("use.json", json.dumps(document).encode())


def begin_after(use: Use, home: TableHome, batch: int) -> None:
    """Makes a new reader start with the batch after a given one; -1: with the first of the log."""
    directory = use.directory(home)
    if batch < 0:
        directory.delete(SNAPSHOT)
    else:
        directory.put(SNAPSHOT, json.dumps({"layout": LAYOUT, "batch": batch, "parts": []}).encode())


def read_upto(home: AppHome, use: Use) -> int:
    """The newest batch of the table that the reader has committed; -1 if it has read none."""
    table_home = home.table(use.reader)
    return offset(use, table_home, table_home.committed_batch())


def planned_upto(home: AppHome, use: Use) -> int:
    """The newest batch of the table that the reader has begun to read."""
    table_home = home.table(use.reader)
    return offset(use, table_home, table_home.planned_batch())


def kept_after(home: AppHome, use: Use) -> int:
    """The batch up to which the reader will never read the log again.

    The newest committed batch does not count: a power failure may lose its commit.
    """
    table_home = home.table(use.reader)
    committed = table_home.committed_batch()
    return offset(use, table_home, None if committed is None else committed - 1)


def offset(use: Use, home: TableHome, batch: int | None) -> int:
    """The offset of a use in a batch of its reader; before the first one, that of its snapshot."""
    return offset_among(use, home, [] if batch is None or batch < 0 else home.spark.offsets(batch))


def offset_among(use: Use, home: TableHome, offsets: Sequence[SourceOffset]) -> int:
    """The offset of a use among those of all sources of its reader; without one, that of its snapshot."""
    mine = [offsets[at] for at in positions(use, home)] if offsets else []
    found = [offset.batch for offset in mine if isinstance(offset, BatchOffset)]
    return min(found) if found else _snapshot(use, home)


def positions(use: Use, home: TableHome) -> list[int]:
    """Where the offset log of a reader's query has the offsets of a use; nowhere before its first batch."""
    try:
        return [int(at) for at in json.loads(use.directory(home).read("use.json"))["positions"]]
    except FileNotFoundError:
        return []


def _snapshot(use: Use, home: TableHome) -> int:
    """The batch of the snapshot that a reader starts with; -1 without a snapshot."""
    try:
        return int(json.loads(use.directory(home).read(SNAPSHOT))["batch"])
    except FileNotFoundError:
        return -1
