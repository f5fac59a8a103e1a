"""How the changes of a table reach the tables that read it.

Each use of a table has a directory of its own in the home of the table that reads, `from/<n>-<table>`. The
upstream's batch puts its file of changes there, as a hard link under the batch's number, before its view
commits; the reader's query reads the files like any others and deletes them when it is done. Numbers only
grow, so the newest one ever put there shows which are still to come: a batch that runs again after a crash
adds nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from keyfold.engine.storage.files import link_durably
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.plan import nodes
from keyfold.plan.nodes import AppSpec, TableSpec

# How Spark's file source logs a file of changes that it has read.
_READ: Final = re.compile(
    rb'"path":":/from/(\d+)-[^/"]*/(\d+)\.parquet","timestamp":\d+,"size":\d+,"batchId":(\d+)'
)


@dataclass(frozen=True)
class Use:
    """One place in a table's declaration that reads the changes of another table."""

    reader: str
    number: int
    table: str

    def directory(self, reader: TableHome) -> Path:
        """Where the reader finds the other's changes."""
        return reader.incoming / f"{self.number}-{self.table}"


def uses(spec: TableSpec) -> list[Use]:
    """The other tables whose changes a table reads; not one that is joined as of event time."""
    return [
        Use(spec.name, number, node.table)
        for number, node in enumerate(nodes.reads(spec.input))
        if isinstance(node, nodes.Changes) or node.as_of == "arrival"
    ]


def readers(spec: AppSpec, table: str) -> list[Use]:
    """All uses of a table in the app."""
    return [use for reader in spec.tables for use in uses(reader) if use.table == table]


class Links:
    """Where the changes of one table go, and up to which batch they are there already."""

    def __init__(self, upto: Iterable[tuple[Path, int]] = ()) -> None:
        self._upto = dict(upto)

    def __bool__(self) -> bool:
        return bool(self._upto)

    def put(self, file: Path, batch: int) -> None:
        """Links a batch's changes into the directories of all readers that don't have them."""
        for directory, upto in self._upto.items():
            if batch > upto:
                link_durably(file, directory / file.name)
                self._upto[directory] = batch


def read_log(home: TableHome, number: int) -> dict[int, tuple[int, int]]:
    """The batches of another table that a use has read or will read: which source of the reader's query it
    was, and its place in that source's log."""
    found: dict[int, tuple[int, int]] = {}
    for log in home.spark.source_logs():
        for entry in home.spark.log_entries(log).values():
            for use, batch, at in logged(entry.read_bytes()):
                if use == number:
                    found[batch] = int(log.name), at
    return found


def logged(entry: bytes) -> list[tuple[int, int, int]]:
    """The files of changes in an entry of Spark's log: use, batch and place in the log."""
    return [(int(use), int(batch), int(at)) for use, batch, at in _READ.findall(entry)]


def files(directory: Path) -> dict[int, Path]:
    """The files of changes in a directory, by batch."""
    return {int(file.stem): file for file in directory.glob("[0-9]*.parquet")}


def sent(use: Use, place: AppHome) -> int:
    """The newest batch that was ever put where a use reads; -1 before the first."""
    home = place.table(use.reader)
    return max([*files(use.directory(home)), *read_log(home, use.number)], default=-1)


def tidy(use: Use, home: TableHome, numbers: Iterable[int]) -> None:
    """Removes files that Spark was not left the time to remove. Those of the newest committed batch stay: its
    commit may be lost with the machine's power, and the batch that then runs again would find nothing.

    `numbers`: those of the reader's sources, by their positions in Spark's log of offsets.
    """
    committed = home.committed()
    upto = {} if committed is None else home.spark.log_offsets(committed - 1, numbers)
    log = read_log(home, use.number)
    for batch, file in files(use.directory(home)).items():
        if batch in log and log[batch][1] <= upto.get(log[batch][0], -1):
            file.unlink()
