"""Late rows, as `keyfold side` lists, shows and replays them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keyfold.cli.reports import tail
from keyfold.cli.side.kind import SideKind, Wanted
from keyfold.errors import BadOption

if TYPE_CHECKING:
    from datetime import datetime

    from keyfold.engine.batch.late_replay import Replayed
    from keyfold.engine.storage.layout import AppHome


class LateRows(SideKind):
    """Rows that arrived after their windows had closed."""

    name = "late"
    options = ("--batch",)

    def list(self, name: str, home: str | None, json: bool) -> None:
        """Prints the batches that have late rows, how late the latest was, and whether they were replayed."""
        from keyfold.cli import formatting, output
        from keyfold.cli.home_reader import late_table
        from keyfold.engine.batch import late_replay

        with late_table(name, home) as (app_home, table):
            found = late_replay.batches_of(app_home.table(table))
            if json:
                output.json_array(_summary(batch) for batch in found)
                return
            output.table(
                ("batch", "rows", "late by", "replayed"),
                (
                    [batch.batch, batch.rows, formatting.span(batch.late_by), batch.replayed]
                    for batch in found
                ),
                right=("batch", "rows", "late by"),
            )

    def show(self, name: str, wanted: Wanted, home: str | None, json: bool) -> None:
        """Prints late rows and the windows that they missed."""
        from keyfold.cli.home_reader import late_table
        from keyfold.engine.batch import late_replay

        columns = ("batch", "time", "late by", "windows missed", "raw")
        with late_table(name, home) as (app_home, table):
            rows = late_replay.read(app_home.table(table), wanted.batches or None)
            tail.show(rows, wanted.limit, json, columns, _cells, right=("batch", "late by"))

    def replay(self, name: str, batches: Sequence[int], home: str | None, json: bool) -> None:
        """Sends late rows whose windows are kept, each once."""
        from keyfold.cli import output
        from keyfold.cli.home_reader import late_table, reached
        from keyfold.engine.batch import late_replay
        from keyfold.engine.operations import unfinished
        from keyfold.engine.storage.lease import is_held_by_app
        from keyfold.plan import durations

        with late_table(name, home) as (app_home, table), unfinished.held_or_running(app_home):
            runs, keep = is_held_by_app(app_home), _keep(app_home, table)
            upto, watermark = reached(app_home, table)
            done = late_replay.replay(
                app_home.table(table), durations.millis(keep, "keep"), watermark, batches or None, upto
            )
        if json:
            document = {"table": f"{app_home.path.name}.{table}", **vars(done), "running": runs}
            output.json_document(document)
        else:
            _show_result(done, runs, keep, watermark)


def _summary(batch: Any) -> dict[str, Any]:
    return {
        "batch": batch.batch,
        "rows": batch.rows,
        "late_by": batch.late_by,
        "replayed": batch.replayed,
        "sent": batch.sent or 0,
    }


def _cells(row: dict[str, Any]) -> list[Any]:
    from keyfold.cli import formatting
    from keyfold.cli.json_values import plain

    first = next(iter(row["windows"]), None)
    window = formatting.NONE if first is None else "/".join(str(plain(moment)) for moment in first.values())
    more = f" and {row['missed'] - 1:,} more" if row["missed"] > 1 else ""
    return [row["batch"], row["time"], formatting.span(row["late_by"]), window + more, row["raw"]]


def _keep(home: AppHome, table: str) -> str:
    """How long the table keeps closed windows, as declared at the last start of the app."""
    declared = ((home.read_plan() or {}).get("declared") or {}).get("tables") or []
    found = next((entry for entry in declared if entry["name"] == table), None)
    where = f"{home.path.name}.{table}"
    if found is None:
        raise BadOption(f"the app no longer declares the table {table}", where=where, hint="another table")
    if found.get("keep"):
        return str(found["keep"])
    raise BadOption(
        "late rows can't be replayed: the table does not keep closed windows",
        where=where,
        hint=_advice(found),
    )


def _advice(table: Mapping[str, Any]) -> str:
    if (table.get("window") or {}).get("kind") in ("rolling", "last"):
        return "rolling and last-N windows never close; larger ones accept older rows"
    if table.get("pattern"):
        return "a longer late= of the stream: a pattern can't accept rows after the watermark has passed them"
    return 'a table of another name with keep="7 days", which keeps closed windows that long'


def _show_result(done: Replayed, runs: bool, keep: str, watermark: datetime | None) -> None:
    from keyfold.cli import formatting

    when = "folded within seconds" if runs else "folded at the next start of the app"
    print(f"{_rows(done.sent)} replayed" + (f", {when}" if done.sent else ""))
    if done.sent_before:
        print(f"{_rows(done.sent_before)} skipped: replayed before")
    if done.no_longer_kept:
        at = f"; the watermark is {formatting.moment(watermark)}" if watermark else ""
        print(f"{_rows(done.no_longer_kept)} skipped: their windows closed more than {keep} ago{at}")
    if done.not_replayable:
        print(
            f"{_rows(done.not_replayable)} skipped: late in a step before the windows (distinct, join, "
            "enrich), whose state for that time is gone; a longer late= of the stream keeps that state longer"
        )
    if done.under_way:
        print(f"{_rows(done.under_way)} skipped: their batch is not complete; run this command again later")


def _rows(number: int) -> str:
    return f"{number:,} late row{'' if number == 1 else 's'}"
