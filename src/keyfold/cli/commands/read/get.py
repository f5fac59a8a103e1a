"""`keyfold get NAME KEY...`: prints the row of one key."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.main import NoSuchKey
from keyfold.cli.options import AtLeast, Home, Json, TableName, Wait, bound


def command(
    name: TableName,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY...", help="The parts of the key, in the order of its columns.", show_default=False
        ),
    ] = None,
    home: Home = None,
    at_least: AtLeast = None,
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Print the row of one key.

    Example: keyfold get shop.region_totals eu
    """
    from keyfold.cli import output
    from keyfold.cli.terminal import log_lines
    from keyfold.read import open_home

    parts = key or []
    with open_home(home) as reader:
        app, part = reader.find(name)
        table = app.table(part)
        row = table.get(*parts, at_least=bound(at_least, wait), wait=wait)
        if row is None:
            position = table.position()
            empty = "the table has no batch yet" if position is None else None
            what = f"no row with the key {', '.join(parts)}"
            raise NoSuchKey(what, reason="not_found", where=name, hint=empty)
        if json:
            output.json_document(row)
            return
        output.pairs(row)
        log_lines.say_known_since(app, part)
