"""Records where the time of the newest batches went, in a file that `keyfold.read.batch_times` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.layout import AppHome
from keyfold.read.batch_times import FILE, MOST, BatchTime, read


def of_report(report: Mapping[str, Any], phases: Mapping[str, int]) -> BatchTime:
    """A batch that Spark has reported as done, with the milliseconds of its phases."""
    at = datetime.fromisoformat(report["timestamp"]).astimezone(UTC)
    plan = phases.get("offsets", 0) + phases.get("plan", 0)
    commit = phases.get("commit", 0) + phases.get("other", 0)
    rows = int(report["numInputRows"])
    return BatchTime(int(report["batchId"]), at, rows, plan, phases.get("fold", 0), None, commit, None)


def with_waits(found: BatchTime, waited: float | None, view: float | None) -> BatchTime:
    """The same with what keyfold measures itself, in seconds; Spark counts the wait as a part of the fold."""
    wait = None if waited is None else min(found.fold, round(waited * 1000))
    took = None if view is None else round(view * 1000)
    return replace(found, fold=found.fold - (wait or 0), wait=wait, view=took)


class BatchTimes:
    """Adds the batches of a running app to what earlier runs recorded."""

    def __init__(self, home: AppHome) -> None:
        self._home, self._found = home, read(home)

    def add(self, tables: Mapping[str, Sequence[BatchTime]]) -> None:
        """Takes the newest batches of each table, oldest first, in place of those with their numbers."""
        found = {**self._found, **{table: self._with(table, new) for table, new in tables.items() if new}}
        if found == self._found:
            return
        self._found = found
        lines = {table: [one.values() for one in batches] for table, batches in found.items()}
        replace_file(self._home.local / FILE, json.dumps({"tables": lines}).encode(), durable=False)

    def _with(self, table: str, new: Sequence[BatchTime]) -> list[BatchTime]:
        # After a reset or a restore, numbers start over.
        before = [one for one in self._found.get(table, ()) if one.batch < new[0].batch]
        return [*before, *new][-MOST:]
