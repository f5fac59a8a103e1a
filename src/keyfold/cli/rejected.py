"""`keyfold rejected NAME`: rows that could not be used."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import Home, Json


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A stream or a table: app.name, or name where the home has one app."
        ),
    ],
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The newest so many; all without it.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print rows that could not be used, with reason and text.

    Example: keyfold rejected shop.orders --limit 10
    """
    from keyfold.cli import output
    from keyfold.cli.reading import rejected_rows

    found = sorted(rejected_rows(name, home), key=lambda row: int(row["batch"]))
    shown = found if limit is None else found[len(found) - min(limit, len(found)) :]
    if json:
        output.json_array(shown)
        return
    output.table(
        ("batch", "reason", "raw"),
        ([row["batch"], row["reason"], row["raw"]] for row in shown),
        right=("batch",),
    )
    if len(shown) < len(found):
        output.say(f"the newest {len(shown):,} of {len(found):,}; leave out --limit for all")
