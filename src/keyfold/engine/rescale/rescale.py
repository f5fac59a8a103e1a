"""Changes the number of partitions of a table's state, beside the old one, and compares the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keyfold.engine.operations import unfinished
from keyfold.engine.operations.checkpoint_copy import working_copy
from keyfold.engine.operations.kinds import RESCALE
from keyfold.engine.rescale import switch
from keyfold.engine.state import digest as state_digest
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.engine.surgery import rewriting
from keyfold.errors import BadOption, HomeUnusable
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]
"""Receives a description of the next step."""


def rescale(
    spark: SparkSession, home: AppHome, table: str, partitions: int, why: str | None, tell: Tell
) -> dict[str, Any]:
    """Changes the number of partitions of a table's state; returns the entry for the audit log."""
    with unfinished.held(home):
        before, batch = require_possible(home, table, partitions)
        name = f"{home.path.name}.{table}"
        tell("copying the checkpoint")
        copy = working_copy(home, table, switch.work(table))
        with RESCALE.preparing(home, f"Spark can't change the number of partitions of {name}"):
            tell("reading the state")
            old = state_digest.digest(spark, copy.storage, batch)
            tell(f"writing {partitions} partitions")
            written = rewriting.resize(spark, copy, batch, partitions)
            tell("comparing every key")
            new = state_digest.digest(spark, copy.storage, written)
            _compare(home, table, old, new)
        facts = {"tables": [table], "batches": {table: batch}, "partitions": [before, partitions]}
        entry = audit.entry("rescale", why, **facts, rows=sum(one.rows for one in new))
        reached(FaultPoint.RESCALE_READY, table=table)
        RESCALE.commit(home, entry)
        reached(FaultPoint.RESCALE_RECORDED, table=table)
        RESCALE.finish(home)
        return entry


def require_possible(home: AppHome, table: str, partitions: int) -> tuple[int, int]:
    """Refuses an impossible change; returns the present number of partitions, and the committed batch."""
    name = f"{home.path.name}.{table}"
    now, committed = require_state(home, table)
    rewriting.require_stopped_between_batches(home, table)
    if partitions == now:
        raise BadOption(f"{name} has {now} partitions", given=partitions, hint="another number")
    return now, committed


def require_state(home: AppHome, table: str) -> tuple[int, int]:
    """The present number of partitions, and the committed batch; refuses a table without state."""
    table_home = home.table(table)
    committed, now = table_home.committed_batch(), table_home.spark.partitions()
    if committed is None or now is None:
        raise BadOption(
            f"{home.path.name}.{table} has no state yet",
            given=table,
            hint="declare partitions=N, which its first start takes",
        )
    return now, committed


def _compare(home: AppHome, table: str, old: list[FamilyDigest], new: list[FamilyDigest]) -> None:
    if old != new:
        changed = sorted(set(old) ^ set(new))
        raise HomeUnusable(
            f"the state of {home.path.name}.{table} differs after the change; nothing was changed",
            given="\n".join(f"{one.family}: {one.rows} rows, checksum {one.checksum}" for one in changed),
            hint="keep the number of partitions; this is a defect, please report it",
        )
