"""`keyfold status [APP]`: prints the status of the apps in a home, from any process, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.options import Home, Json, complete_app

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome


def command(
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="APP",
            help="One app. Default: all apps of the home.",
            show_default=False,
            autocompletion=complete_app,
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show the status of the apps of a home and of their tables.

    Rows and rows/s are of the last run; batch, keys, late, rejected and duplicate rows, and partial matches
    that a pattern's limit dropped, are of all runs. A running app writes its status every second; its age is
    shown, and an app that no longer writes it is not responding. Narrow terminals show fewer columns; --json
    has all of them.

    Example: keyfold status shop
    """
    from keyfold.cli import app_status, output
    from keyfold.engine.storage.home_names import home_of

    found = [app_status.status(app_home) for app_home in _chosen(home_of(home), app)]
    if json:
        output.json_array(found)
        return
    for number, status in enumerate(found):
        if number:
            print()
        app_status.show(status)


def _chosen(home: Any, app: str | None) -> list[AppHome]:
    from keyfold.engine.storage.home_names import apps, find
    from keyfold.engine.storage.layout import AppHome

    if app is not None:
        return [find(home, app, table=False)[0]]
    known = apps(home)
    # Raises an error that says what to do if there is none.
    return [AppHome(home.resolve() / name) for name in known] if known else [find(home, "")[0]]
