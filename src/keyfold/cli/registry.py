"""Registers the commands. A new command is a module in a group of `commands/` and a line here."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli import aliases
from keyfold.cli.commands.change import audit, drop, forget, migrate, plan, rebuild, rescale, reset
from keyfold.cli.commands.dev import check, demo, describe, dev, init, pattern
from keyfold.cli.commands.read import get, log, rows, side, views
from keyfold.cli.commands.run import doctor, run, serve, status, token
from keyfold.cli.commands.state import (
    savepoint,
    savepoint_files,
    state,
    state_history,
    state_put,
    state_read,
    verify,
)
from keyfold.cli.key_command import KeyCommand

app = typer.Typer(
    name="keyfold",
    help="Stateful stream processing on Spark: a durable, bounded, readable fold per key.",
    pretty_exceptions_enable=False,
    # Plain help: with Rich it takes three times as long.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from keyfold import __version__

        print(f"keyfold {__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print Python's traceback with an error.")] = False,
) -> None:
    # `main.main` reads it from the arguments, since it outlives the command; it is here for the help.
    del version, debug


app.command("init")(init.command)
app.command("run")(run.command)
app.command("serve")(serve.command)
app.add_typer(token.app, name="token")
app.add_typer(dev.app, name="dev")
app.command("get", cls=KeyCommand)(get.command)
app.command("rows")(rows.command)
app.command("demo")(demo.command)
app.command("status")(status.command)
app.add_typer(side.app, name="side")
app.add_typer(log.app, name="log")
app.add_typer(pattern.app, name="pattern")
app.add_typer(views.app, name="views")
for name, act in (
    ("verify", savepoint_files.verify),
    ("clone", savepoint_files.clone),
    ("prune", savepoint_files.prune),
    ("delete", savepoint_files.delete),
    ("export", savepoint_files.export),
    ("import", savepoint_files.import_),
):
    savepoint.app.command(name)(act)
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(audit.app, name="audit")
state.app.command("read")(state_read.read)
state.app.command("diff")(state_read.diff)
state.app.command("history", cls=KeyCommand)(state_history.history)
state.app.command("put", cls=KeyCommand)(state_put.put)
state.app.command("delete", cls=KeyCommand)(state_put.delete)
app.add_typer(state.app, name="state")
app.command("plan")(plan.command)
app.command("migrate")(migrate.command)
app.command("rebuild")(rebuild.command)
app.command("rescale")(rescale.command)
app.command("forget", cls=KeyCommand)(forget.command)
app.command("verify")(verify.command)
app.command("reset")(reset.command)
app.command("drop")(drop.command)
app.command("describe")(describe.command)
app.command("check")(check.command)
app.command("doctor")(doctor.command)
aliases.register(app)
