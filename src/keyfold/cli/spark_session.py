"""A Spark session for commands that read or write state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def own_spark(home: str | None) -> Iterator[Any]:
    """A local session that ends with the command; the one that opened a home elsewhere, if there is one."""
    from keyfold.cli import output
    from keyfold.engine import session
    from keyfold.engine.jvm import process, short_run
    from keyfold.settings import load

    output.say("starting Spark")
    settings = load(home=home)
    short = isinstance(settings.home, Path) and short_run.is_small([settings.home])
    with process.ending_java():
        yield session.own_session(settings, alone=True, short=short)
