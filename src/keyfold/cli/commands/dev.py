"""`keyfold dev APP.py`: runs an app while it is being written."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Annotated, Final

import typer

from keyfold.cli.options import AppFile, Json

_PREFIX: Final = "keyfold-dev-"


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
    json: Json = False,
) -> None:
    """Run an app while you write it, until Ctrl-C.

    When its file or a module beside it changes, the app starts again within seconds, since Java stays up. If
    the new file has an error, a column that does not exist included, the error is shown and the old app goes
    on.

    Without --home each start reads all input again, into a temporary directory. With --json the last
    status is printed at the end.

    Example: keyfold dev shop.py
    """
    from keyfold.cli import output
    from keyfold.cli.dev_loop import Development

    # A compiled file is known by the second it was made in, and two edits may be in one second.
    sys.dont_write_bytecode = True
    with output.only_results(), _place(home) as place:
        ended = Development(app, place, keep=home is not None).run()
    if json:
        output.json_document(ended)


@contextmanager
def _place(home: str | None) -> Iterator[Path]:
    if home is not None:
        yield Path(home).expanduser()
        return
    _remove_left()
    with TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _remove_left() -> None:
    """Removes what killed processes of this user left behind."""
    import psutil

    for left in Path(gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = left.name.removeprefix(_PREFIX).split("-")[0]
        with suppress(OSError):
            if pid.isdigit() and not psutil.pid_exists(int(pid)) and left.stat().st_uid == os.getuid():
                shutil.rmtree(left, ignore_errors=True)
