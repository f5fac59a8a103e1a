"""A table's state without reading it: the size of its partitions on disk, and what savepoints have of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keyfold.engine.savepoint.manifest import SavedTable, Savepoint
from keyfold.engine.storage.contract import FileFacts, Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError

_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class PartitionSize:
    """The files of one partition of the state, with the earlier versions that Spark retains."""

    partition: int
    files: int
    bytes: int


@dataclass(frozen=True)
class SavedState:
    """A savepoint that has the table."""

    savepoint: str
    at: datetime
    batch: int | None
    bytes: int
    """Of the table's files in it, which the home may share."""
    rows: int | None
    """How many rows the state has, if it was read back when the savepoint was made."""
    same_as: str | None
    """The savepoint before it that has the same state, by the checksums of all rows."""


@dataclass(frozen=True)
class StateSizes:
    """The size of a table's state, by partition, and the savepoints that have the table, oldest first."""

    bytes: int
    skew: float | None
    """The largest partition relative to the mean: 1 is even. A batch takes as long as its largest one."""
    partitions: Sequence[PartitionSize]
    savepoints: Sequence[SavedState]


def of(home: AppHome, table: str, savepoints: Sequence[Savepoint]) -> StateSizes:
    """What the files of a table and the manifests of savepoints say."""
    partitions = list(_partitions(home.table(table).storage.below("checkpoint")))
    whole = sum(one.bytes for one in partitions)
    largest = max((one.bytes for one in partitions), default=0)
    skew = round(largest * len(partitions) / whole, 2) if whole else None
    return StateSizes(whole, skew, partitions, list(_saved(table, savepoints)))


def _partitions(checkpoint: Storage) -> Iterator[PartitionSize]:
    """The partitions in order, each over all operators of the query."""
    files, sizes = Counter[int](), Counter[int]()
    for file in _files(checkpoint):
        # <operator>/<partition>/...
        _, partition, *below = file.name.split("/")
        if partition.isdecimal() and below:
            files[int(partition)] += 1
            sizes[int(partition)] += file.bytes
    for number in sorted(files):
        yield PartitionSize(number, files[number], sizes[number])


def _files(checkpoint: Storage) -> Sequence[FileFacts]:
    for _ in range(_ATTEMPTS):
        # Spark removes old versions meanwhile.
        with suppress(FileNotFoundError):
            return checkpoint.files("state")
    what = "the files of the state change while they are listed"
    raise QueryError(what, reason="not_ready", where=checkpoint.uri("state"), hint="again in a moment")


def _saved(table: str, savepoints: Sequence[Savepoint]) -> Iterator[SavedState]:
    before: dict[object, str] = {}
    for one in savepoints:
        saved = one.tables.get(table)
        if saved is None:
            continue
        size = sum(file.bytes for file in one.of_table(table))
        same = before.get(saved.state) if saved.state else None
        yield SavedState(one.name, one.at, saved.batch, size, _rows(saved), same)
        if saved.state:
            before[saved.state] = one.name


def _rows(saved: SavedTable) -> int | None:
    return None if saved.state is None else sum(family.rows for family in saved.state)
