"""`keyfold drop TABLE`: deletes a table from a home."""

from __future__ import annotations

from keyfold.cli.home.removal_dialog import Why, Yes
from keyfold.cli.options import Home, Json, TableName


def command(
    name: TableName, why: Why = None, yes: Yes = False, home: Home = None, json: Json = False
) -> None:
    """Delete a table's state, view and side outputs.

    For a table that the app no longer declares, or to free space. If the app still declares it, the next
    start reads its sources from the first row. Other tables stay as they are; a table that others read is
    refused. The deletion is recorded in audit.jsonl in the app's home.

    Example: keyfold drop shop.old_totals --why "no longer used"
    """
    from keyfold.cli.home import removal_dialog
    from keyfold.errors import BadOption

    with removal_dialog.find_table(name, home) as (opened, table):
        if readers := removal_dialog.readers_of(opened, table):
            raise BadOption(
                f"{opened.path.name}.{table} is read by {', '.join(readers)}, whose state contains its rows",
                given=name,
                hint=f"drop {' and '.join(readers)} first; or `keyfold reset {opened.path.name}.{table} "
                "--with-readers` to reset all of them",
            )
        removal_dialog.carry_out("drop", opened, [table], why, yes, json)
