"""`keyfold log show | verify | prune | compact`: what a table's log contains, and less of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from keyfold.cli.home.app_log import open_log
from keyfold.cli.options import Home, Json, OlderThan, TableName, age_of
from keyfold.cli.reports.tail import Newest

if TYPE_CHECKING:
    from keyfold.read.batches import LogBatch

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Show, verify, prune and compact the log of a table or stream.

    Example: keyfold log show shop.region_totals
    """


@app.command()
def show(name: TableName, limit: Newest = None, home: Home = None, json: Json = False) -> None:
    """List the batches in a table's log. Merged batches are one line.

    Changes that all followers have read are removed, and counted in the totals of removed batches.

    Example: keyfold log show shop.region_totals --limit 10
    """
    from keyfold.cli import formatting, output
    from keyfold.read import batches as log_batches

    with open_log(name, home) as (_, log):
        found = log_batches.of(log, limit)
    if json:
        output.json_document(found.document())
        return
    # Of patterns alone, and seldom: their partial matches beyond `limit`.
    dropped = ("dropped_partial",) if any(one.counts["dropped_partial"] for one in found.batches) else ()
    columns = ("batch", "at", "change", "late", "rejected", "duplicate", *dropped, "files", "size")
    output.table(columns, (_cells(one, columns) for one in found.batches), right=columns[2:])
    if len(found.batches) < found.total:
        output.say(f"the newest {len(found.batches):,} of {found.total:,} batches; omit --limit for all")
    if found.removed_upto >= 0:
        counted = ", ".join(f"{formatting.count(n)} {kind}" for kind, n in found.removed.items() if n)
        output.say(f"removed up to batch {found.removed_upto}, read by all followers: {counted or 'no rows'}")


def _cells(one: LogBatch, columns: tuple[str, ...]) -> list[Any]:
    from keyfold.cli import formatting

    batch = one.batch if one.first == one.batch else f"{one.first}-{one.batch}"
    at, size = formatting.moment(one.at), formatting.size(one.size)
    shown = {**one.document(), "batch": batch, "at": at, "size": size}
    return [shown[column] for column in columns]


@app.command()
def verify(name: TableName, home: Home = None, json: Json = False) -> None:
    """Read every file of a table's log and compare its checksum.

    Exits with 1 and names the first file that is missing or damaged.

    Example: keyfold log verify shop.region_totals
    """
    from keyfold.cli import formatting, output
    from keyfold.engine.log import retention
    from keyfold.read import batches as log_batches

    with open_log(name, home) as (_, log):
        gone, files, size = retention.totals(log).upto, 0, 0
        for manifests in log_batches.merged_together(log):
            there = (p for m in manifests for p in m.parts if p.kind != "change" or m.batch > gone)
            for part in {part.path: part for part in there}.values():
                log.verify(part)
                files, size = files + 1, size + part.bytes
    if json:
        output.json_document({"files": files, "bytes": size, "whole": True})
    else:
        print(f"{files:,} files, {formatting.size(size)}: all as they were written")


@app.command()
def prune(name: TableName, older_than: OlderThan = None, home: Home = None, json: Json = False) -> None:
    """Delete rejected, late and duplicate rows from a table's log.

    Changes are removed by the app itself, once all followers have read them. Side outputs stay until this
    command or `keyfold side drop` deletes them; they are still counted. The newest ten batches stay.

    Example: keyfold log prune shop.region_totals --older-than "30 days"
    """
    from keyfold.cli import formatting, output
    from keyfold.engine.log import retention
    from keyfold.engine.operations import unfinished

    age = age_of(older_than)
    with open_log(name, home) as (app_home, log), unfinished.held_or_running(app_home):
        batches, size = retention.prune_side_outputs(log, age)
    if json:
        output.json_document({"batches": batches, "bytes": size})
    else:
        print(f"side outputs of {batches:,} batches deleted, {formatting.size(size)}")


@app.command()
def compact(name: TableName, home: Home = None, json: Json = False) -> None:
    """Merge small files of old batches into a few large ones.

    What followers and other commands read does not change. The app must not be running. The newest ten
    batches stay as they are; so do batches that are large already.

    Example: keyfold log compact shop.region_totals
    """
    from dataclasses import asdict

    from keyfold.cli import formatting, output
    from keyfold.engine.log.compaction import Compaction, Size
    from keyfold.engine.operations import unfinished

    batches, before, after = 0, Size(), Size()
    with open_log(name, home) as (app_home, log), unfinished.held(app_home) as lease:
        for merge in Compaction(log, lease).run():
            output.say(f"batches {merge.of} merged")
            batches, before, after = batches + merge.batches, before + merge.before, after + merge.after
    if json:
        output.json_document({"batches": batches, "before": asdict(before), "after": asdict(after)})
    elif batches:
        was = f"{before.files:,} files, {formatting.size(before.bytes)}"
        now = f"{after.files:,} files, {formatting.size(after.bytes)}"
        print(f"{batches:,} batches merged: {was} before, {now} now")
    else:
        print("nothing to merge")
