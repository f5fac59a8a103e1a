"""Another number of partitions for a table's state, made beside the old one, and compared with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keyfold.engine.operations import leftovers, unfinished
from keyfold.engine.operations.checkpoint_copy import working_copy
from keyfold.engine.operations.failure import failed
from keyfold.engine.rescale import switch as rescaling
from keyfold.engine.state import digest as state_digest
from keyfold.engine.state.digest import FamilyDigest
from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import rewriting
from keyfold.errors import BadOption, HomeUnusable, RunError
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]
"""Told what is done next."""


def rescale(
    spark: SparkSession, place: AppHome, table: str, partitions: int, why: str | None, tell: Tell
) -> dict[str, Any]:
    """Gives a table's state another number of partitions; returns the entry for the audit log."""
    with unfinished.held(place):
        before, batch = require_possible(place, table, partitions)
        name = f"{place.path.name}.{table}"
        tell("copying the checkpoint")
        copy = working_copy(place, table, rescaling.work(table))
        try:
            tell("reading the state")
            old = state_digest.digest(spark, copy.storage, batch)
            tell(f"writing {partitions} partitions")
            written = rewriting.resize(spark, copy, batch, partitions)
            tell("comparing every key")
            new = state_digest.digest(spark, copy.storage, written)
            _compare(place, table, old, new)
        except BaseException as error:
            leftovers.discard(place, rescaling.WORK)
            if isinstance(error, Exception) and not isinstance(error, RunError):
                raise failed(f"Spark can't change the number of partitions of {name}", error) from error
            raise
        facts = {"tables": [table], "batches": {table: batch}, "partitions": [before, partitions]}
        entry = audit.entry("rescale", why, **facts, rows=sum(one.rows for one in new))
        reached(FaultPoint.RESCALE_READY, table=table)
        intents.record(place.storage, rescaling.INTENT, entry, rescaling.WORK)
        reached(FaultPoint.RESCALE_RECORDED, table=table)
        rescaling.finish(place)
        return entry


def require_possible(place: AppHome, table: str, partitions: int) -> tuple[int, int]:
    """Refuses what can't be done; returns the number of partitions now, and the committed batch."""
    name = f"{place.path.name}.{table}"
    now, committed = require_state(place, table)
    rewriting.require_stopped_between_batches(place, table)
    if partitions == now:
        raise BadOption(f"{name} has {now} partitions", given=partitions, hint="another number")
    return now, committed


def require_state(place: AppHome, table: str) -> tuple[int, int]:
    """The number of partitions now, and the committed batch; refuses a table without state."""
    home = place.table(table)
    committed, now = home.committed(), home.spark.partitions()
    if committed is None or now is None:
        raise BadOption(
            f"{place.path.name}.{table} has no state yet",
            given=table,
            hint="declare partitions=N, which its first start takes",
        )
    return now, committed


def _compare(place: AppHome, table: str, old: list[FamilyDigest], new: list[FamilyDigest]) -> None:
    if old != new:
        changed = sorted(set(old) ^ set(new))
        raise HomeUnusable(
            f"the state of {place.path.name}.{table} differs after the change; nothing was changed",
            given="\n".join(f"{one.family}: {one.rows} rows, checksum {one.checksum}" for one in changed),
            hint="keep the number of partitions; this is a defect, please report it",
        )
