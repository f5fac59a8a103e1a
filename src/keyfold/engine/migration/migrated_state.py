"""Writes a table's state for a changed definition beside the old one, and compares what was written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.expressions import column
from keyfold.engine.operations.files import copy_files
from keyfold.engine.spark_errors import NeedsClock, explain_errors, kernel_error
from keyfold.engine.state import digest as state_digest
from keyfold.engine.state.mapping import KeySource, StateMapping
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.engine.storage.stored_app import StoredTable
from keyfold.errors import BadExpression, HomeUnusable, RunError
from keyfold.fault_points import FaultPoint, reached
from keyfold.kernel.api import ErrorCode, StateMigration
from keyfold.plan.describe import phrases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN: Final = "state/0/"
"""Where a checkpoint has the table's own state; the state of a join that feeds the table is not migrated."""


def copy_checkpoint(source: TableHome, target: TableHome, *, state: bool) -> None:
    """Links or copies the files of a checkpoint; without `state`, all but the table's own state."""
    files = [file.name for file in source.storage.files("checkpoint")]
    wanted = [name for name in files if state or not name.startswith(OWN)]
    old, new = (f"{home.path.parent.name}/{home.path.name}/checkpoint/" for home in (source, target))
    copy_files(source.app.storage, wanted, old, new)
    target.spark.relocate()


def write_state(
    spark: SparkSession,
    compiled: Compiled,
    old: StoredTable,
    mapping: StateMapping,
    source: TableHome,
    target: TableHome,
    batch: int,
) -> int:
    """Writes the new state of a batch into a checkpoint that lacks it; returns the number of its keys."""
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame

    assert compiled.migration is not None
    migration = compiled.migration(json.dumps(old.state))
    _declare(spark, compiled, migration, mapping)
    states = _states(spark, compiled, old, mapping, source, batch)
    # Computed once: a merge could add in another order the next time.
    rows = DataFrame(migration.rows(states._jdf), spark).persist(StorageLevel.DISK_ONLY)
    try:
        wanted = _digest(compiled, rows)
        reached(FaultPoint.MIGRATION_COMPUTED, table=compiled.spec.name)
        ids = list(migration.write(rows._jdf, target.checkpoint_url, batch))
    finally:
        rows.unpersist()
    target.spark.commit_state(batch, ids)
    if state_digest.of_rows(state_digest.read_store(spark, target.spark.storage, 0, batch), 0) != wanted:
        raise HomeUnusable(
            f"the new state of {compiled.name} could not be read back as written; nothing was changed",
            given=target.shown,
            hint="keep the old definition; this is a defect, please report it",
        )
    return sum(one.rows for one in wanted if one.family == "state")


def _declare(
    spark: SparkSession, compiled: Compiled, migration: StateMigration, mapping: StateMapping
) -> None:
    for one in mapping.fields:
        if one.copied is not None:
            migration.copyField(one.field, one.copied)
        elif one.expression is not None:
            where, given = f"{compiled.name}, {compiled.spec.site}", phrases.expr_words(one.expression)
            try:
                with explain_errors(spark, f"migrate of {one.field}", where, given):
                    made = column(one.expression)._jc
                    migration.computeField(one.field, made, list(one.names), list(one.fields))
            except NeedsClock:
                raise BadExpression(
                    f"migrate of {one.field} reads the clock, and states have no time of their own",
                    where=where,
                    given=given,
                    hint="write the time that is meant: timestamp'2026-01-01 00:00:00'",
                ) from None


def _digest(compiled: Compiled, rows: DataFrame) -> list[FamilyDigest]:
    """The digest of the rows to write; it computes them, and an expression may fail on a key."""
    try:
        return state_digest.of_rows(rows, 0)
    except Exception as error:
        failed = kernel_error(error)
        if failed is None or failed.code != ErrorCode.FAILED_MIGRATION:
            raise
        key, reason = failed.payload["key"], failed.payload["reason"]
        raise RunError(
            f"the migration of {compiled.name} fails on a key; nothing was changed",
            where=compiled.spec.site,
            given=f"key {key}: {reason}".splitlines()[0],
            hint="use an expression that has a value for every key, for example with try_divide or coalesce",
        ) from None


def _states(
    spark: SparkSession,
    compiled: Compiled,
    old: StoredTable,
    mapping: StateMapping,
    source: TableHome,
    batch: int,
) -> DataFrame:
    """The old states and retained windows under the new keys, in the partitions of these."""
    from pyspark.sql import functions as F

    states = _rekey(_read_variable(spark, source, batch, "state"), mapping.keys)
    value = states.schema["old value"].dataType
    no_tick = F.lit(None).cast("bigint").alias("tick")
    if "keep" in old.meaning and compiled.spec.keep_ms is not None:
        windows = _rekey(_read_variable(spark, source, batch, "kept"), mapping.keys)
        kept = windows.schema["old kept"].dataType
        found = states.select("key", "old value", no_tick, F.lit(None).cast(kept).alias("old kept")).union(
            windows.select("key", F.lit(None).cast(value), F.col("`old tick`.tick"), "old kept")
        )
    else:
        found = states.select("key", "old value", no_tick, F.lit(None).cast("int").alias("old kept"))
    partitions = source.spark.partitions()
    assert partitions is not None
    placed = found.repartition(partitions, *(F.col(f"key.`{one.name}`") for one in mapping.keys))
    return placed.sortWithinPartitions("key") if mapping.merges else placed


def _read_variable(spark: SparkSession, home: TableHome, batch: int, variable: str) -> DataFrame:
    """A state variable; the names of its columns have a space, unlike those of keys."""
    found = (
        spark.read.format("statestore")
        .option("path", home.checkpoint_url)
        .option("stateVarName", variable)
        .option("batchId", batch)
        .load()
    )
    names = {"key": "old key", "value": "old value", "user_map_key": "old tick", "user_map_value": "old kept"}
    return found.select(*(found[name].alias(new) for name, new in names.items() if name in found.columns))


def _rekey(found: DataFrame, keys: list[KeySource]) -> DataFrame:
    from pyspark.sql import functions as F

    names = found.schema["old key"].dataType.names  # type: ignore[attr-defined]
    flat = found.withColumns({name: F.col(f"`old key`.`{name}`") for name in names})

    def compute(one: KeySource) -> Any:
        taken = F.col(f"`{one.copied}`") if one.expression is None else column(one.expression)
        return taken.cast(one.type).alias(one.name)

    others = [name for name in found.columns if name != "old key"]
    return flat.select(F.struct(*map(compute, keys)).alias("key"), *(F.col(f"`{name}`") for name in others))
