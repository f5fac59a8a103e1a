"""`keyfold side list | show | replay | drop`: rejected, late and duplicate rows."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import Home, Json, OlderThan, age_of, complete_table
from keyfold.cli.side.kind import Wanted
from keyfold.cli.side.kinds import KINDS, kind_of

app = typer.Typer(rich_markup_mode=None)

SideKindName = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help=f"The kind of rows: {', '.join(KINDS)}.",
        autocompletion=lambda incomplete: [kind for kind in KINDS if kind.startswith(incomplete)],
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A table: app.table, or table if the home has a single app. Of rejected rows, also a stream.",
        autocompletion=complete_table,
    ),
]
Batches = Annotated[
    list[int] | None,
    typer.Option("--batch", metavar="N", min=0, help="Only this batch; can be repeated.", show_default=False),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=0,
        help="Show only the newest N rows. Default: all; of rejected rows, some of each reason.",
        show_default=False,
    ),
]
ReasonText = Annotated[
    str | None,
    typer.Option(
        "--reason",
        metavar="TEXT",
        help="Of rejected rows: only those whose reason has this text, whatever their own values are.",
        show_default=False,
    ),
]


@app.callback()
def _group() -> None:
    """List, show, replay and drop rows that were not folded.

    KIND is rejected (a row that can't be folded, with the reason: the dead letter queue), late (a row that
    arrived after its windows had closed) or duplicate (a row that distinct has dropped).

    Example: keyfold side show rejected shop.orders

    Example: keyfold side replay late shop.per_minute
    """


@app.command("list")
def list_(kind: SideKindName, name: Name, home: Home = None, json: Json = False) -> None:
    """Count rows: rejected ones by reason, others by batch.

    Of late rows it shows how late the latest was, and whether they were replayed: "partly" if some were late
    in a step before the windows, "partly-expired" if the windows of some were no longer kept. Of duplicates
    it shows how many were recorded.

    Example: keyfold side list late shop.per_minute
    """
    kind_of(kind).list(name, home, json)


@app.command()
def show(
    kind: SideKindName,
    name: Name,
    batch: Batches = None,
    reason: ReasonText = None,
    limit: Limit = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print rows with their raw text.

    Rejected rows are counted by reason first, without their own values: quoted texts, numbers and times. Then
    come the newest of each reason, with the file and, where it is known, the line, or with partition and
    offset; --limit shows the newest of all. --json prints the counts and, without --limit, all rows. Late
    rows have the windows that they missed.

    Example: keyfold side show rejected shop.orders --reason "is null"

    Example: keyfold side show late shop.per_minute --batch 7 --limit 10
    """
    found, wanted = kind_of(kind), Wanted(batch or (), reason, limit)
    wanted.require(found.name, found.options)
    found.show(name, wanted, home, json)


@app.command()
def replay(
    kind: SideKindName, name: Name, batch: Batches = None, home: Home = None, json: Json = False
) -> None:
    """Replay late rows into closed windows that are kept.

    For tables with keep=. Each row is replayed once, even if this command is run again. The app folds it
    within seconds if it is running, otherwise at its next start. Rows of other kinds can't be replayed.

    Example: keyfold side replay late shop.per_minute --batch 7
    """
    kind_of(kind).replay(name, batch or (), home, json)


@app.command()
def drop(
    kind: SideKindName,
    name: Name,
    older_than: OlderThan = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Delete rows of one kind from a table's log.

    The rows are still counted. Side outputs stay until this command, or `keyfold log prune` for all kinds,
    deletes them. The newest ten batches stay, and so do batches whose changes have not been read by all
    followers.

    Example: keyfold side drop duplicate shop.totals --older-than "30 days"
    """
    from keyfold.cli import formatting, output
    from keyfold.cli.home.app_log import open_log
    from keyfold.engine.log import retention
    from keyfold.engine.operations import unfinished

    name_of_kind, age = kind_of(kind).name, age_of(older_than)
    with open_log(name, home) as (app_home, log), unfinished.held_or_running(app_home):
        done = retention.drop_side_outputs(log, name_of_kind, age)
    if json:
        output.json_document({"batches": done.batches, "rows": done.rows, "bytes": done.bytes})
    else:
        of = f"{done.rows:,} {name_of_kind} rows of {done.batches:,} batches"
        print(f"{of} deleted, {formatting.size(done.bytes)}")
