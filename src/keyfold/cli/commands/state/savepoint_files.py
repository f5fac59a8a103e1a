"""`keyfold savepoint verify | clone | export | import | prune | delete`: what becomes of savepoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.commands.state.savepoint import Name
from keyfold.cli.home.removal_dialog import Why
from keyfold.cli.options import AppName, Home, Json


def verify(
    name: Name,
    state: Annotated[
        bool, typer.Option("--state", help="Also read every row of its state back, with Spark.")
    ] = False,
    app: AppName = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Read every file of a savepoint and compare its checksum.

    Exits with 1, and names each file that is missing, altered or not part of it. With --state also each
    table whose state has other rows than were recorded.

    Example: keyfold savepoint verify before-upgrade
    """
    from keyfold.cli import output
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.savepoint import verify as verification
    from keyfold.engine.savepoint.savepoints import Savepoints

    with open_app(app, home) as app_home:
        savepoints = Savepoints(app_home)
        with savepoints.reading(name) as found:
            with dialog.progress() as told:
                damages = verification.damages(found, savepoints.storage(name), told)
            states = None
            if state and not damages:
                states, damages = dialog.read_back(app_home, found, home)
        if json:
            documents = [{"path": one.path, "problem": one.problem} for one in damages]
            rows = None if states is None else {table: read for table, (read, _) in states.items()}
            output.json_document({"name": name, "whole": not damages, "damages": documents, "rows": rows})
        elif damages:
            output.table(("file", "problem"), ((one.path, one.problem) for one in damages))
        else:
            print(f"savepoint {name}: {dialog.summary(found)}; all files as they were written")
            if states is not None:
                rows_read = ((table, read, how) for table, (read, how) in states.items())
                output.table(("table", "rows of state", ""), rows_read, right=("rows of state",))
        if damages:
            raise typer.Exit(1)


def clone(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="APP", help="The new app's name.", show_default=False)],
    to_home: Annotated[
        str | None,
        typer.Option("--to-home", metavar="DIR", help="Its home. Default: the same.", show_default=False),
    ] = None,
    app: AppName = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Create another app from a savepoint.

    Declare the new app as kf.App("APP") with the same tables, and with sinks of its own.

    Example: keyfold savepoint clone before-upgrade shop_green
    """
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app, open_new_app
    from keyfold.engine.savepoint import clone as cloning
    from keyfold.plan.validate import arguments

    arguments.identifier(new, "an app", None)
    with open_app(app, home) as source, open_new_app(new, to_home or home) as target:
        with dialog.progress() as told:
            found = cloning.clone(source, name, target, told)
        dialog.say(found, json, f"app {new}: {dialog.summary(found)}")


def prune(
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=0, help="Keep the newest N.")],
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="DURATION", help="Only those that are older.", show_default=False
        ),
    ] = None,
    app: AppName = None,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Delete old savepoints. The audit log has a line for each.

    Example: keyfold savepoint prune --keep 5 --older-than "30 days"
    """
    from datetime import timedelta

    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.operations import unfinished
    from keyfold.engine.savepoint.deletion import Deletion
    from keyfold.plan import durations

    age = None if older_than is None else timedelta(milliseconds=durations.millis(older_than, "older-than"))
    with open_app(app, home) as app_home:
        with unfinished.held_or_running(app_home) as held:
            found = Deletion(app_home, why, held).prune(keep, age)
        dialog.report_deleted([one.name for one in found], json)


def delete(name: Name, app: AppName = None, why: Why = None, home: Home = None, json: Json = False) -> None:
    """Delete a savepoint, also while the app runs. The audit log says who did.

    A command that is reading the savepoint, or a start, then ends with an error, and changes nothing.

    Example: keyfold savepoint delete before-upgrade
    """
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.operations import unfinished
    from keyfold.engine.savepoint.deletion import Deletion
    from keyfold.engine.savepoint.savepoints import checked_name

    with open_app(app, home) as app_home:
        checked_name(name)
        with unfinished.held_or_running(app_home) as held:
            Deletion(app_home, why, held).delete(name)
        dialog.report_deleted([name], json)


def export(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)],
    app: AppName = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write a savepoint to one file.

    Example: keyfold savepoint export before-upgrade shop.savepoint
    """
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_app
    from keyfold.engine.savepoint import archive

    with open_app(app, home) as app_home:
        with dialog.progress() as told:
            found = archive.export(app_home, name, file, told)
        dialog.say(found, json, f"{file}: savepoint {name}, {dialog.summary(found)}")


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of an export.", show_default=False)],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Another name for it.", show_default=False)
    ] = None,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Import an exported savepoint into a home, to restore or clone it.

    Works while the app runs, too. The audit log says who did.

    Example: keyfold savepoint import shop.savepoint
    """
    from keyfold.cli.home import savepoint_dialog as dialog
    from keyfold.cli.home.app_home import open_new_app
    from keyfold.engine.operations import unfinished
    from keyfold.engine.savepoint import archive

    with (
        open_new_app(archive.read(file).app, home) as app_home,
        unfinished.held_or_running(app_home) as held,
        dialog.progress() as told,
    ):
        found = archive.put(file, app_home, name, told, why, held=held)
    dialog.say(found, json, f"savepoint {found.name} of {found.app}: {dialog.summary(found)}")
