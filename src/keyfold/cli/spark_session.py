"""A Spark session for commands that read or write state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome


@contextmanager
def own_spark(home: str | None, stopped: AppHome | None = None) -> Iterator[Any]:
    """A local session that ends with the command; the one that opened a home elsewhere, if there is one.

    `stopped`: an app that must not run, which is found out before Spark takes its time to start.
    """
    from keyfold.cli import output
    from keyfold.cli.savepoint_dialog import refuse_running
    from keyfold.engine import session
    from keyfold.engine.jvm import process, short_run
    from keyfold.settings import load

    if stopped is not None:
        refuse_running(stopped)
    output.say("starting Spark")
    settings = load(home=home)
    short = isinstance(settings.home, Path) and short_run.is_small([settings.home])
    with process.ending_java():
        yield session.own_session(settings, alone=True, short=short)
