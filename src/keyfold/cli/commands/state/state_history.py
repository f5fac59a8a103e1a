"""`keyfold state history TABLE KEY...`: every change of a key that the log still has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.options import Home, Json, TableName

if TYPE_CHECKING:
    from keyfold.read.history import Since


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
    from keyfold.cli.home.homes import opened_app

    with opened_app(name, home, any_files=True) as (app, part):
        table = app.with_files(part, name)
        reaches, changes = app.history_reaches(table), list(app.history(table, key))
        declared = app.stored.declared_tables.get(table, {}).get("history")
    if json:
        head = {"app": app.name, "table": table, "since": reaches.document()}
        output.json_document({**head, "changes": [change.document() for change in changes]})
        return
    output.table(("batch", "at", "op", "row"), ((one.batch, one.at, one.op, one.row) for one in changes))
    if reaches.batch is None or not reaches.whole:
        output.say(_reach(reaches, declared if isinstance(declared, str) else None))


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
