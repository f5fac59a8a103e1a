"""A run as lines of a log, and as a table when it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli import figures, output

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle

_LINE_SECONDS: Final = 10.0


class Lines:
    """A line for each table that moved, every few seconds."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._next = time.monotonic() + _LINE_SECONDS
        self._told: dict[str, int | None] = {}

    def tell(self) -> None:
        """Says what moved, if it is time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LINE_SECONDS
        for name, table in self._handle.status()["tables"].items():
            if table["batch"] != self._told.get(name):
                self._told[name] = table["batch"]
                output.say(line(name, table))


def line(name: str, table: dict[str, Any]) -> str:
    """A table's figures as one line of a log."""
    row = figures.status_row(name, table)
    done = f", {table['done']:.0%} done" if table["done"] is not None and table["done"] < 1 else ""
    removed = f", {row['removed']} removed" if "removed" in row else ""
    watermark = f", watermark {row['watermark']}" if table["watermark"] else ""
    return (
        f"{name}: batch {row['batch']} in {row['took']}, {row['rows/s']} rows/s, {row['keys']} keys, "
        f"state {row['state']}{watermark}, {row['late']} late, {row['rejected']} rejected{removed}{done}"
    )


def show(status: dict[str, Any]) -> None:
    """The last figures of a run, as a table on stdout."""
    removed = any(table.get("removed") for table in status["tables"].values())
    columns = ("table", "batch", "rows", "keys", "late", "rejected", *(["removed"] if removed else []))
    rows = []
    for name, table in status["tables"].items():
        found = [table.get(column) for column in columns[1:]]
        rows.append([f"{status['app']}.{name}", *(figures.NONE if v is None else v for v in found)])
    output.table(columns, rows, right=columns[1:])
