"""Replaces the old state by the rescaled one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keyfold.engine.operations.checkpoint_copy import replace_checkpoint
from keyfold.engine.operations.kinds import RESCALE
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint, reached


def work(table: str) -> str:
    """The directory of a table's new state."""
    return f"{RESCALE.name}/{table}"


def carry_out(home: AppHome, entry: dict[str, Any]) -> dict[str, Any]:
    """Switches to the new state; the record is the entry of the audit log."""
    (table,) = entry["tables"]
    replace_checkpoint(home.storage, f"{work(table)}/checkpoint", table)
    reached(FaultPoint.RESCALE_SWITCHED, table=table)
    plan = home.read_plan()
    if table in plan.tables:
        resized = replace(plan.tables[table], partitions=entry["partitions"][1])
        home.write_plan(plan.with_tables({**plan.tables, table: resized}))
    return entry
