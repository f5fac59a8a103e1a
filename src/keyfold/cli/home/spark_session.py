"""A Spark session for commands that read or write state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome
    from keyfold.settings import Settings

# For few rows, generated code takes longer to compile than it saves.
_INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def own_spark(home: str | None, stopped: AppHome | None = None) -> Iterator[Any]:
    """A local session that ends with the command; the one that opened a home elsewhere, if there is one.

    `stopped`: an app that must not run, which is found out before Spark takes its time to start.
    """
    from keyfold.cli import output
    from keyfold.cli.home.savepoint_dialog import refuse_running
    from keyfold.engine.jvm import process
    from keyfold.settings import load

    if stopped is not None:
        refuse_running(stopped)
    output.say("starting Spark")
    settings = load(home=home)
    with process.ending_java():
        yield session_of(settings, small=is_small(settings), alone=True)


def is_small(settings: Settings) -> bool:
    """Whether a home is on a local disk, and small."""
    from keyfold.engine.jvm import short_run

    return isinstance(settings.home, Path) and short_run.is_small([settings.home], short_run.HOME_FILES)


def session_of(settings: Settings, *, small: bool, alone: bool = False) -> Any:
    """A session of keyfold's own for a command; `small`: it has few rows to read."""
    from keyfold.engine import session

    if small:
        settings = settings.model_copy(update={"spark": {**_INTERPRETED, **settings.spark}})
    return session.own_session(settings, alone=alone, short=small)
