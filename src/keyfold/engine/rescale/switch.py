"""Puts a rescaled state, which is recorded in `rescaling.json`, in the place of the old one.

It is certain from then on: if the command is killed, the next command or start finishes it.
"""

from __future__ import annotations

from typing import Final

from keyfold.engine.operations.checkpoint_copy import copied_checkpoint
from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint, reached

INTENT: Final = "rescaling.json"
WORK: Final = "rescaling"


def work(table: str) -> str:
    """The directory of a table's new state."""
    return f"{WORK}/{table}"


def finish(place: AppHome) -> None:
    """Carries out a recorded switch, if need be again, or removes what was not recorded."""
    entry = intents.begun(place, INTENT, WORK)
    if entry is None:
        place.storage.delete(WORK)
        return
    (table,) = entry["tables"]
    source, target = f"{work(table)}/checkpoint", f"tables/{table}/checkpoint"
    files = [file.name for file in place.storage.files(source)]
    place.storage.delete(target)
    copied_checkpoint(place.storage, source, target, files)
    reached(FaultPoint.RESCALE_SWITCHED, table=table)
    plan = place.read_plan()
    if plan is not None and table in plan["tables"]:
        plan["tables"][table]["partitions"] = entry["partitions"][1]
        place.write_plan(plan)
    audit.append(place.storage, entry)
    place.storage.delete(INTENT)
    place.storage.delete(WORK)
