"""Duplicates, as `keyfold side` lists and shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keyfold.cli.reports import tail
from keyfold.cli.side.kind import SideKind, Wanted

if TYPE_CHECKING:
    from keyfold.engine.log.table_log import TableLog
    from keyfold.read.side_rows import DuplicateRow


class DuplicateRows(SideKind):
    """Rows that `distinct` has dropped: all are counted, and kept with `record_duplicates=True`."""

    name = "duplicate"
    options = ("--batch",)
    replay_hint = "the first row of its key was folded; a smaller within= of distinct keeps more rows"

    def list(self, name: str, home: str | None, json: bool) -> None:
        """Prints the batches that have duplicates: how many, and how many of them were recorded."""
        from keyfold.cli import formatting, output
        from keyfold.cli.home.app_log import open_log

        with open_log(name, home) as (_, log):
            if json:
                output.json_array(_batches(log))
                return
            rows = ([b["batch"], formatting.moment(b["at"]), b["rows"], b["recorded"]] for b in _batches(log))
            output.table(("batch", "at", "rows", "recorded"), rows, right=("batch", "rows", "recorded"))

    def show(self, name: str, wanted: Wanted, home: str | None, json: bool) -> None:
        """Prints the duplicates that were recorded."""
        from keyfold.cli import output
        from keyfold.cli.home.app_log import open_log
        from keyfold.read import side_outputs

        columns = ("batch", "at", "step", "raw")
        with open_log(name, home) as (_, log):
            recorded = side_outputs.duplicates(log)
            rows = [row for row in recorded if not wanted.batches or row.batch in wanted.batches]
            tail.show(rows, wanted.limit, json, columns, _cells, right=("batch",))
            if not rows and (counted := sum(batch["rows"] for batch in _batches(log))):
                output.say(
                    f"{counted:,} duplicates were counted; distinct(..., record_duplicates=True) keeps them"
                )


def _batches(log: TableLog) -> Iterator[dict[str, Any]]:
    for manifest in log.after(-1):
        if rows := manifest.counts["duplicate"]:
            recorded = sum(part.rows for part in manifest.of_kind("duplicate"))
            yield {"batch": manifest.batch, "at": manifest.at, "rows": rows, "recorded": recorded}


def _cells(row: DuplicateRow) -> list[Any]:
    return [row.batch, row.at, row.step or "", row.raw]
