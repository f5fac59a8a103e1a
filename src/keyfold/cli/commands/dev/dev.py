"""`keyfold dev APP.py`: runs an app while it is being written; `dev kafka` and `dev load` are beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from keyfold.cli.commands.dev import dev_kafka, dev_load
from keyfold.cli.options import AppFile, Json
from keyfold.cli.running.temporary import temporary_directory

_PREFIX: Final = "keyfold-dev-"
_RUN: Final = "app"


class _Commands(TyperGroup):
    """A word that is not a command is an app's file: `keyfold dev shop.py` is `keyfold dev app shop.py`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args.insert(0, _RUN)
        return super().parse_args(ctx, args)


app = typer.Typer(rich_markup_mode=None, cls=_Commands)


@app.callback()
def _group() -> None:
    """Restart an app on changes, run a broker, generate load.

    Example: keyfold dev shop.py

    Example: keyfold dev kafka --topic orders
    """


@app.command(_RUN)
def command(
    app: AppFile,
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="Where to keep state from one start to the next; otherwise each start begins from scratch.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run an app, and restart it when its file changes.

    `keyfold dev APP.py` is a shorthand. Watches the app's file and the modules in its directory. A restart
    takes seconds, since the JVM keeps running. If the new version has an error, such as an unknown column,
    the error is shown and the previous version keeps running. Ctrl-C stops it.

    Without --home each restart reads all input again, into a temporary home. With --json the last status is
    printed at the end.

    Example: keyfold dev shop.py
    """
    from keyfold.cli import output
    from keyfold.cli.running.dev_loop import Development

    # A compiled file is known by the second it was made in, and two edits may be in one second.
    sys.dont_write_bytecode = True
    with output.only_results(), _place(home) as app_home:
        ended = Development(app, app_home, keep=home is not None).run()
    if json:
        output.json_document(ended)


@contextmanager
def _place(home: str | None) -> Iterator[Path]:
    if home is not None:
        yield Path(home).expanduser()
        return
    with temporary_directory(_PREFIX) as directory:
        yield directory


app.command("kafka")(dev_kafka.command)
app.command("load")(dev_load.command)
