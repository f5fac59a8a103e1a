"""`keyfold audit list | verify`: who did what to an app's state, and whether that record is whole."""

from __future__ import annotations

import typer

from keyfold.cli.options import AppName, Home, Json

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """List and verify the audit log of an app.

    It records drops, resets, savepoints, their import and deletion, restores, and other operations on the
    app's state and views.

    Example: keyfold audit list
    """


@app.command("list")
def list_(app: AppName = None, home: Home = None, json: Json = False) -> None:
    """List operations, oldest first, with user, tables and reason.

    Example: keyfold audit list --app shop
    """
    from keyfold.cli import output
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.storage import audit

    with open_app(app, home) as app_home:
        found = audit.entries(app_home.storage)
    if json:
        output.json_document(found)
        return
    columns = ("at", "user", "what", "savepoint", "tables", "batches", "why")
    output.table(columns, ([_cell(one.get(name)) for name in columns] for one in found))


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {batch}" for name, batch in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value or "")


@app.command()
def verify(app: AppName = None, home: Home = None, json: Json = False) -> None:
    """Check by a chain of hashes that no entry was changed or removed.

    Exits with 1, and names the lines. Entries removed from the end can't be detected.

    Example: keyfold audit verify --app shop
    """
    from keyfold.cli import output
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.storage import audit

    with open_app(app, home) as app_home:
        count, found = len(audit.entries(app_home.storage)), audit.breaks(app_home.storage)
    if json:
        broken = [{"line": one.line, "problem": one.problem} for one in found]
        output.json_document({"entries": count, "whole": not found, "breaks": broken})
    elif found:
        output.table(("line", "problem"), ((one.line, one.problem) for one in found))
    else:
        print(f"{count:,} entries: all as they were written")
    if found:
        raise typer.Exit(1)
