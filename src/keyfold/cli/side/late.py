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
    from keyfold.read import AppReader
    from keyfold.read.side_rows import LateRow


class LateRows(SideKind):
    """Rows that arrived after their windows had closed."""

    name = "late"
    options = ("--batch",)

    def list(self, name: str, home: str | None, json: bool) -> None:
        """Prints the batches that have late rows, how late the latest was, and whether they were replayed."""
        from keyfold.cli import formatting, output
        from keyfold.cli.home.homes import opened_app

        with opened_app(name, home) as (app, table):
            found = app.late_batches(table)
            if json:
                output.json_array(batch.document() for batch in found)
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
        from keyfold.cli.home.homes import opened_app

        columns = ("batch", "time", "late by", "windows missed", "raw")
        with opened_app(name, home) as (app, table):
            rows = app.late(table, wanted.batches or None)
            tail.show(rows, wanted.limit, json, columns, _cells, right=("batch", "late by"))

    def replay(self, name: str, batches: Sequence[int], home: str | None, json: bool) -> None:
        """Sends late rows whose windows are kept, each once."""
        from keyfold.cli import output
        from keyfold.cli.home.homes import opened_app
        from keyfold.engine.batch import late_replay
        from keyfold.engine.operations import unfinished
        from keyfold.engine.storage.lease import is_held_by_app
        from keyfold.plan import durations
        from keyfold.read import positions

        with opened_app(name, home) as (app, part):
            table, app_home = app.table_with_late_rows(part), app.home
            with unfinished.held_or_running(app_home):
                runs, keep = is_held_by_app(app_home), _keep(app, table)
                upto, watermark = positions.read_position(app_home, table)
                keep_ms = durations.millis(keep, "keep")
                done = late_replay.replay(app_home.table(table), keep_ms, watermark, batches or None, upto)
        if json:
            document = {"table": f"{app.name}.{table}", **vars(done), "running": runs}
            output.json_document(document)
        else:
            _show_result(done, runs, keep, watermark)


def _cells(row: LateRow) -> list[Any]:
    from keyfold.cli import formatting
    from keyfold.read.values import plain

    first = next(iter(row.windows), None)
    window = formatting.NONE if first is None else f"{plain(first.start)}/{plain(first.end)}"
    more = f" and {row.missed - 1:,} more" if row.missed > 1 else ""
    return [row.batch, row.time, formatting.span(row.late_by), window + more, row.raw]


def _keep(app: AppReader, table: str) -> str:
    """How long the table keeps closed windows, as declared at the last start of the app."""
    found, where = app.stored.declared_tables.get(table), f"{app.name}.{table}"
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
