"""`keyfold state history TABLE KEY...`: every change of a key that the log still has."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.options import Home, Json, TableName

if TYPE_CHECKING:
    from keyfold.engine.log.key_history import Since
    from keyfold.engine.storage.layout import AppHome


def history(
    name: TableName,
    key: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", help="The key's values, or the first ones.", show_default=False),
    ],
    home: Home = None,
    json: Json = False,
) -> None:
    """Print every change of a key that the table's log still has.

    Also says since which batch the log has all of them, and why it does not have earlier ones.

    Example: keyfold state history shop.totals eu
    """
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import found
    from keyfold.engine.log import key_history
    from keyfold.engine.log.table_log import TableLog

    with found(name, home) as (app_home, table):
        log = TableLog(app_home.table(table).log_files)
        reaches, changes = key_history.since(log), list(key_history.history(log, key))
    if json:
        head = {"app": app_home.path.name, "table": table, "since": asdict(reaches)}
        output.json_document({**head, "changes": changes})
        return
    output.table(("batch", "at", "op", "row"), ([*one.values()] for one in changes))
    if reaches.batch is None or not reaches.whole:
        output.say(_reach(reaches, _declared_history(app_home, table)))


def _reach(reaches: Since, history: str | None) -> str:
    """Since when a log that does not have all changes has them, and where earlier ones are."""
    from keyfold.cli import formatting

    if reaches.batch is None and reaches.whole:
        return "the table has no changes yet"
    if reaches.migrated is not None:
        why = f"it started over after batch {reaches.migrated}, when the table was migrated"
    elif history is not None:
        why = f"{'all' if reaches.batch is None else 'earlier ones'} are older than history={history}"
    elif reaches.batch is None:
        why = "all followers have read them; history= keeps them"
    else:
        why = "earlier ones are gone; history= keeps them"
    if reaches.batch is None:
        return f"the log has no changes{' yet' * (reaches.migrated is not None)}: {why}"
    return f"the log has all changes since batch {reaches.batch}, {formatting.moment(reaches.at)}: {why}"


def _declared_history(home: AppHome, table: str) -> str | None:
    """How long the table keeps its changes, as the last start declared it."""
    declared = (home.read_plan() or {}).get("declared") or {}
    found = [one.get("history") for one in declared.get("tables", ()) if one["name"] == table]
    return found[0] if found and isinstance(found[0], str) else None
