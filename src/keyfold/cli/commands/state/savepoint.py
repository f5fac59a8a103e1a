"""`keyfold savepoint ...`: an app's state at one moment, to go back to, to clone, or to keep as one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.home.removal_dialog import Why, Yes
from keyfold.cli.options import AppName, Home, Json

if TYPE_CHECKING:
    pass

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The savepoint's name.", show_default=False)]
Tables = Annotated[
    list[str] | None,
    typer.Argument(metavar="TABLE", help="Tables. Default: all of the app.", show_default=False),
]


@app.callback()
def _group() -> None:
    """Create, restore, clone and export savepoints of an app.

    A savepoint is a consistent copy of the state, source positions, logs and views of all tables.

    Example: keyfold savepoint create before-upgrade
    """


@app.command()
def create(
    name: Name,
    tables: Tables = None,
    live: Annotated[bool, typer.Option("--live", help="Create it while the app runs.")] = False,
    state: Annotated[
        bool,
        typer.Option("--state", help="Read the state back, and record its number of rows and a checksum."),
    ] = False,
    app: AppName = None,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Create a savepoint.

    Without --live the app must be stopped. On a local disk the savepoint shares its files with the home, so
    that it uses additional space only for files that the home later removes. --live implies --state;
    without --live, --state starts Spark.

    Example: keyfold savepoint create before-upgrade --live
    """
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.savepoint import create as creation
    from keyfold.engine.savepoint import requests
    from keyfold.engine.savepoint.savepoints import Savepoints, checked_name

    with open_app(app, home) as app_home:
        wanted = dialog.tables_of(app_home, tables)
        checked_name(name)
        if live and dialog.running(app_home):
            requests.ask(app_home, name, wanted, why)
            found = Savepoints(app_home).find(name)
        else:
            dialog.refuse_running(app_home, "--live makes it between two batches")
            with dialog.spark(home, needed=state) as spark, dialog.progress() as told:
                found = creation.create(app_home, name, wanted, why, told, spark)
        dialog.say(found, json, f"savepoint {name}: {dialog.summary(found)}")


@app.command("list")
def list_(app: AppName = None, home: Home = None, json: Json = False) -> None:
    """List the savepoints of an app, oldest first.

    Example: keyfold savepoint list
    """
    from keyfold.cli import formatting, output
    from keyfold.cli.home.homes import opened_home

    with opened_home(home) as reader:
        found = reader.whole_app(app).savepoints()
        if json:
            output.json_document([one.document() for one in found])
            return
        columns = ("name", "at", "tables", "batch", "size", "by", "why")
        rows = (
            (
                one.name,
                formatting.moment(one.at),
                len(one.tables) if one.whole else ", ".join(one.tables),
                max((table.batch or 0 for table in one.tables.values()), default=None),
                formatting.size(one.size),
                one.user,
                one.why or "",
            )
            for one in found
        )
        output.table(columns, rows, right=("tables", "batch", "size"))


@app.command()
def show(name: Name, app: AppName = None, home: Home = None, json: Json = False) -> None:
    """Show the tables, batches, watermarks and size of a savepoint.

    Example: keyfold savepoint show before-upgrade
    """
    from keyfold.cli import output
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.homes import opened_home

    with opened_home(home) as reader:
        found = reader.whole_app(app).savepoint(name)
        if json:
            output.json_document(found.document())
            return
        print(f"savepoint {found.name} of {found.app}, {dialog.summary(found)}")
        columns = ("table", "batch", "watermark", "partitions", "files", "size")
        output.table(columns, dialog.table_rows(found), right=("batch", "partitions", "files", "size"))


@app.command()
def restore(
    name: Name,
    tables: Tables = None,
    app: AppName = None,
    why: Why = None,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Restore an app, or some of its tables, to a savepoint.

    The app must be stopped. Its next start processes the input since the savepoint again. A savepoint of the
    present state is created first, so that you can undo the restore.

    Example: keyfold savepoint restore before-upgrade --why "bad deploy"
    """
    from keyfold.cli import output
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app
    from keyfold.cli.home.removal_dialog import ask
    from keyfold.engine.savepoint import restore as restoring

    with open_app(app, home) as app_home:
        wanted = dialog.tables_of(app_home, tables)
        dialog.refuse_running(app_home)
        if not yes:
            ask(f"Restore {', '.join(wanted) or app_home.path.name} to savepoint {name}?")
        with dialog.progress() as told:
            entry = restoring.restore(app_home, name, wanted, why, told)
        if json:
            output.json_document({"app": app_home.path.name, **entry})
            return
        print(f"{app_home.path.name}: restored to savepoint {name}; the next start continues from there")
        if entry["undo"]:
            output.say(f"to undo this, restore savepoint {entry['undo']}")
