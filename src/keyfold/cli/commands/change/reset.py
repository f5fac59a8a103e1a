"""`keyfold reset TABLE`: deletes a table's state, so that the next start rebuilds it from its sources."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.home.removal_dialog import Why, Yes
from keyfold.cli.options import Home, Json, TableName


def command(
    name: TableName,
    with_readers: Annotated[
        bool, typer.Option("--with-readers", help="Also reset the tables that read it.")
    ] = False,
    why: Why = None,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Delete a table's state and view; the next start rebuilds them.

    Deletes the side outputs too. The next start reads the sources from their first row, as far as they still
    have it. Use it after a checkpoint was damaged, or to change the definition. Other tables stay as they
    are; tables that read this one contain its rows, and must be reset with it. The deletion is recorded
    in audit.jsonl in the app's home.

    Example: keyfold reset shop.totals --why "disk failure"
    """
    from keyfold.cli.home import removal_dialog
    from keyfold.engine.storage import contents
    from keyfold.errors import BadOption

    with removal_dialog.find_table(name, home) as (opened, table):
        readers = removal_dialog.readers_of(opened, table)
        if readers and not with_readers:
            raise BadOption(
                f"{opened.path.name}.{table} is read by {', '.join(readers)}, whose state contains its rows",
                given=name,
                hint=f"`keyfold reset {opened.path.name}.{table} --with-readers`, which resets all of them",
            )
        removal_dialog.carry_out("reset", opened, contents.with_readers(opened, table), why, yes, json)
