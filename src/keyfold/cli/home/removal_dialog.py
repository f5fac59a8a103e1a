"""Shared by `keyfold drop` and `keyfold reset`: finds the table, asks to confirm, reports the result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from keyfold.engine.operations.removal import What
    from keyfold.engine.storage.layout import AppHome

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation; required without a terminal.")]
Why = Annotated[
    str | None,
    typer.Option("--why", metavar="TEXT", help="The reason, for audit.jsonl.", show_default=False),
]


@contextmanager
def find_table(name: str, home: str | None) -> Iterator[tuple[AppHome, str]]:
    """The app and its table, also one that the app no longer declares, or whose app.json is lost.

    Or its stream, if that has a log.
    """
    from keyfold.cli.home.homes import opened_app

    with opened_app(name, home, any_files=True) as (app, part):
        yield app.home, app.with_files(part, name)


def readers_of(home: AppHome, table: str) -> list[str]:
    """All tables whose state contains rows of a table: they read it, directly or through others."""
    from keyfold.engine.storage.contents import with_readers

    return with_readers(home, table)[1:]


def carry_out(what: What, home: AppHome, tables: list[str], why: str | None, yes: bool, json: bool) -> None:
    """Asks for confirmation, removes the tables, and reports what was removed."""
    from keyfold.cli import formatting, output
    from keyfold.engine.operations import unfinished
    from keyfold.engine.operations.removal import remove, size

    app = home.path.name
    names = " and ".join(f"{app}.{table}" for table in tables)
    if not yes:
        space = formatting.size(sum(size(home, table) for table in tables))
        ask(f"{what} {names}? This deletes state, view and side outputs, {space}.")
    with unfinished.held(home):
        done = remove(home, what, tables, why)
    if json:
        output.json_document({"app": app, **done})
    else:
        after = "the next start" if what == "reset" else "if the app still declares it, the next start"
        removed = formatting.size(done["bytes"])
        print(f"{names}: {removed} deleted; {after} reads its sources from the first row")
    if done["view"]:
        output.say(f"cannot remove the view: {done['view']}")
        raise typer.Exit(1)


def ask(question: str) -> None:
    """Asks for confirmation on a terminal; without one the command is refused."""
    from keyfold.cli import output

    require_terminal()
    if not typer.confirm(question, err=True):
        output.say("nothing was changed")
        raise typer.Exit(1)


def require_terminal() -> None:
    """Refuses a command that will have to ask for confirmation, where nobody can answer."""
    from keyfold.errors import BadOption

    if not sys.stdin.isatty():
        raise BadOption(
            "this can't be undone, and there is no terminal to ask for confirmation", hint="--yes confirms it"
        )
