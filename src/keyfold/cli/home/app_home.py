"""Finds the home of a whole app, for commands that name no table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome


@contextmanager
def open_app(app: str | None, home: str | None) -> Iterator[AppHome]:
    """The app that was named, or the only one of the home; also one that has savepoints and nothing else.

    A home that is not on a local disk is opened through Spark.
    """
    from keyfold.cli.home.homes import opened_home

    with opened_home(home) as reader:
        yield reader.whole_app(app).home


@contextmanager
def open_new_app(app: str, home: str | None) -> Iterator[AppHome]:
    """The home of an app that need not exist yet: its directory is made."""
    from keyfold.cli.home.homes import is_elsewhere, remote_storage
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import local_app_home, remote_app_home
    from keyfold.settings import load

    if not is_elsewhere(home):
        yield local_app_home(home_of(home), app)
        return
    settings = load(home=home)
    with remote_storage(settings) as storage:
        app_home = remote_app_home(storage.below(app), settings.local_directory, app)
        app_home.use_local(settings.local)
        yield app_home
