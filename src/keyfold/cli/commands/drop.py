"""`keyfold drop TABLE`: removes a table from a home for good."""

from __future__ import annotations

from keyfold.cli.options import Home, Json, TableName
from keyfold.cli.removal_dialog import Why, Yes


def command(
    name: TableName, why: Why = None, yes: Yes = False, home: Home = None, json: Json = False
) -> None:
    """Remove a table's state, view and side outputs for good.

    For a table that the app no longer has, or to free space. One that the app still declares begins anew at
    the next start. Other tables stay as they are; a table that others read is refused. What was removed is
    written to audit.jsonl in the app's home.

    Example: keyfold drop shop.old_totals --why "no longer used"
    """
    from keyfold.cli import removal_dialog
    from keyfold.errors import BadOption

    place, table = removal_dialog.found(name, home)
    if readers := removal_dialog.readers_of(place, table):
        raise BadOption(
            f"{place.path.name}.{table} is read by {', '.join(readers)}, whose state holds rows of it",
            given=name,
            hint=f"drop {' and '.join(readers)} first; or `keyfold reset {place.path.name}.{table} "
            "--with-readers` to begin all of them anew",
        )
    removal_dialog.carried_out("drop", place, [table], why, yes, json)
