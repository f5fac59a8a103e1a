"""`keyfold token create | list | revoke`: who may read a home over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import Home, Json

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The token's name.", show_default=False)]


@app.callback()
def _group() -> None:
    """Create, list and revoke tokens of people who read over HTTP.

    Once a home has a token, every request needs one. A running server notices new and revoked tokens.

    Example: keyfold token list
    """


@app.command()
def create(
    name: Name,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="reader, operator or admin.")
    ] = "reader",
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="APP.TABLE,...",
            help="The only tables that it may read. Default: all.",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="How long it lasts, such as 30d. Default: until it is revoked."
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Create a token, and print it once: the home has its hash alone.

    A reader does not see private columns and raw rows, an operator and an admin do.

    Example: keyfold token create ann --tables shop.totals,shop.per_minute --expires 30d
    """
    from datetime import timedelta

    from keyfold.cli import output
    from keyfold.engine.storage import tokens
    from keyfold.plan import durations
    from keyfold.read import open_home

    lasts = None if expires is None else timedelta(milliseconds=durations.millis(expires, "--expires"))
    with open_home(home) as reader:
        wanted = None if tables is None else tables.split(",")
        made, text = tokens.create(reader.directory, name, role, wanted, lasts)
    if json:
        output.json_document({**made.document(), "token": text})
        return
    print(text)
    until = "until it is revoked" if made.expires is None else f"until {made.expires:%Y-%m-%d %H:%M} UTC"
    scope = "all tables" if made.tables is None else ", ".join(made.tables)
    output.say(f"{made.name} reads {scope} as {made.role}, {until}; the token is not shown again")


@app.command("list")
def list_(home: Home = None, json: Json = False) -> None:
    """List the tokens of a home, also those that were revoked or have expired.

    Example: keyfold token list --json
    """
    from keyfold.cli import formatting, output
    from keyfold.engine.storage import tokens
    from keyfold.read import open_home

    with open_home(home) as reader:
        found = list(tokens.read(reader.directory).values())
    if json:
        output.json_document([one.document() for one in found])
        return
    columns = ("name", "role", "tables", "state", "created", "expires", "by")
    rows = (
        (
            one.name,
            one.role,
            "all" if one.tables is None else ", ".join(one.tables),
            one.state,
            formatting.moment(one.created),
            "" if one.expires is None else formatting.moment(one.expires),
            one.by,
        )
        for one in found
    )
    output.table(columns, rows)


@app.command()
def revoke(name: Name, home: Home = None, json: Json = False) -> None:
    """Revoke a token for good; a running server refuses it within a second.

    Example: keyfold token revoke ann
    """
    from keyfold.cli import output
    from keyfold.engine.storage import tokens
    from keyfold.read import open_home

    with open_home(home) as reader:
        found = tokens.revoke(reader.directory, name)
    output.json_document(found.document()) if json else output.say(f"{name} is revoked")
