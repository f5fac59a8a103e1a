"""`keyfold dev APP.py`: runs an app while it is being written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from keyfold.cli.options import AppFile


def command(
    app: AppFile,
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="Where to keep state from one start to the next; else each start begins anew.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run an app while you write it, until Ctrl-C.

    When its file or a module beside it changes, the app starts again within seconds, since Java stays up. If
    the new file has an error, the error is shown and the old app goes on.

    Without --home each start reads all input again, into a temporary directory.

    Example: keyfold dev shop.py
    """
    from keyfold.cli import output
    from keyfold.cli.dev_loop import Development

    # A compiled file is known by the second it was made in, and two edits may be in one second.
    sys.dont_write_bytecode = True
    with output.only_results(), _place(home) as place:
        Development(app, place, keep=home is not None).run()


@contextmanager
def _place(home: str | None) -> Iterator[Path]:
    if home is not None:
        yield Path(home).expanduser()
        return
    with TemporaryDirectory(prefix="keyfold-dev-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
