"""`keyfold status [APP]`: prints the status of the apps in a home, from any process, without a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import Home, Json, complete_app


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
    from keyfold.read import open_home

    with open_home(home) as reader:
        chosen = reader.apps() if app is None else [reader.app(app)]
        found = [one.status() for one in chosen]
    if json:
        output.json_array(status.document() for status in found)
        return
    for number, status in enumerate(found):
        if number:
            print()
        app_status.show(status)
