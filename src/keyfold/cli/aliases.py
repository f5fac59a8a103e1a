"""Former names of commands: they work in this version, and are in no help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.commands.change import forget
from keyfold.cli.commands.read import side
from keyfold.cli.commands.read.side import Batches, Limit, Name, ReasonText
from keyfold.cli.commands.run import run
from keyfold.cli.commands.run.run import Master, Set
from keyfold.cli.options import AppFile, AppName, Home, Json

late = typer.Typer(rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Adds the former names."""
    app.add_typer(late, name="late", hidden=True)
    for command in (rejected, standby, receipt):
        app.command(command.__name__, hidden=True)(command)


@late.callback()
def _late() -> None:
    """Now `keyfold side`."""


@late.command("list")
def _late_list(name: Name, home: Home = None, json: Json = False) -> None:
    """Now `keyfold side list late`."""
    side.list_("late", name, home, json)


@late.command("show")
def _late_show(
    name: Name, batch: Batches = None, limit: Limit = None, home: Home = None, json: Json = False
) -> None:
    """Now `keyfold side show late`."""
    side.show("late", name, batch, None, limit, home, json)


@late.command("replay")
def _late_replay(name: Name, batch: Batches = None, home: Home = None, json: Json = False) -> None:
    """Now `keyfold side replay late`."""
    side.replay("late", name, batch, home, json)


def rejected(
    name: Name, reason: ReasonText = None, limit: Limit = None, home: Home = None, json: Json = False
) -> None:
    """Now `keyfold side show rejected`."""
    side.show("rejected", name, None, reason, limit, home, json)


def standby(
    app: AppFile, master: Master = None, set_: Set = None, home: Home = None, json: Json = False
) -> None:
    """Now `keyfold run --standby`."""
    run.command(app, standby=True, master=master, set_=set_, home=home, json=json)


def receipt(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt that keyfold forget has printed.")],
    app: AppName = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Now `keyfold forget --check`."""
    forget.check(file, app, home, json)
