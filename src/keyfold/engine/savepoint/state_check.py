"""Reads the state of a savepoint back: to record its number of rows and a checksum, or to compare them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from keyfold.engine.operations.checkpoint_copy import copy_checkpoint
from keyfold.engine.savepoint.manifest import SavedTable, Savepoint
from keyfold.engine.savepoint.savepoints import FILES
from keyfold.engine.savepoint.verify import Damage
from keyfold.engine.state import digest as state_digest
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.errors import SavepointUnusable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

State = tuple[FamilyDigest, ...]


def states(
    spark: SparkSession, home: AppHome, name: str, tables: Mapping[str, SavedTable]
) -> dict[str, State]:
    """What the captured state of each table holds."""
    found: dict[str, State] = {}
    for table, saved in tables.items():
        if saved.batch is None:
            found[table] = ()
            continue
        with _readable(home.storage, f"savepoints/{name}/{FILES}/tables/{table}/checkpoint") as copy:
            try:
                found[table] = tuple(state_digest.digest(spark, copy, saved.batch))
            except Exception as error:
                raise _unreadable(home, name, table, error) from error
    return found


def differences(savepoint: Savepoint, now: Mapping[str, State]) -> list[Damage]:
    """The tables whose state differs from the recorded one; tables without a record are not compared."""
    found = []
    for table, saved in savepoint.tables.items():
        if saved.state is not None and saved.state != now[table]:
            told = f"had {_describe(saved.state)}, and {_describe(now[table])} were read back"
            found.append(Damage(f"tables/{table}/checkpoint/state", told))
    return found


def rows(state: Sequence[FamilyDigest]) -> int:
    """The total number of rows in all column families."""
    return sum(family.rows for family in state)


@contextmanager
def _readable(storage: Storage, source: str) -> Iterator[Storage]:
    """A linked copy of a captured checkpoint: the absolute paths in its metadata must lead to itself."""
    # Not a valid name of a savepoint, so that the sweep after interrupted commands removes it.
    directory = f"savepoints/_check-{uuid.uuid4().hex}"
    try:
        yield copy_checkpoint(storage, source, f"{directory}/checkpoint").storage
    finally:
        storage.delete(directory)


def _describe(state: State) -> str:
    checksums = ", ".join(f"{family.family} {family.checksum}" for family in state)
    return f"{rows(state):,} rows ({checksums or 'no state'})"


def _unreadable(home: AppHome, name: str, table: str, error: Exception) -> SavepointUnusable:
    from keyfold.engine.spark_messages import plain

    return SavepointUnusable(
        f"the state of {home.path.name}.{table} in savepoint {name} can't be read back",
        given=plain(str(error)).splitlines()[0][:300],
        hint="keyfold savepoint verify NAME names files that are damaged; spark.log has more",
    )
