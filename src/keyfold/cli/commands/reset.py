"""`keyfold reset TABLE`: lets a table begin anew."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import Home, Json, TableName
from keyfold.cli.removal_dialog import Why, Yes


def command(
    name: TableName,
    with_readers: Annotated[
        bool, typer.Option("--with-readers", help="Reset the tables that read it as well.")
    ] = False,
    why: Why = None,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Let a table begin anew, from the first row of its sources.

    Removes its state, view and side outputs; the next start reads what its sources still have. The way out of
    a damaged checkpoint, and on to another definition. Other tables stay as they are; those that read it hold
    rows of it, and are reset with it or not at all. What was removed is written to audit.jsonl in the app's
    home.

    Example: keyfold reset shop.totals --why "disk failure"
    """
    from keyfold.cli import removal_dialog
    from keyfold.engine.recovery import table_removal
    from keyfold.errors import BadOption

    place, table = removal_dialog.found(name, home)
    readers = removal_dialog.readers_of(place, table)
    if readers and not with_readers:
        raise BadOption(
            f"{place.path.name}.{table} is read by {', '.join(readers)}, whose state holds rows of it",
            given=name,
            hint=f"`keyfold reset {place.path.name}.{table} --with-readers`, which begins all of them anew",
        )
    removal_dialog.carried_out("reset", place, table_removal.with_readers(place, table), why, yes, json)
