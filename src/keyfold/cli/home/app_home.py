"""Finds the home of a whole app, for commands that name no table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome


@contextmanager
def open_app(app: str | None, home: str | None) -> Iterator[AppHome]:
    """The app that was named, or the only one of the home; also one that has savepoints and nothing else.

    A home that is not on a local disk is opened through Spark.
    """
    from keyfold.cli.home_reader import is_elsewhere, remote_storage
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import AppHome
    from keyfold.settings import load

    if not is_elsewhere(home):
        yield on_disk(app, home_of(home))
        return
    settings = load(home=home)
    with remote_storage(settings) as storage:
        known = [name for name in storage.list() if {"app.json", "savepoints"} & set(storage.list(name))]
        name = _chosen(app, known, settings.home)
        yield AppHome(settings.local_directory / name, storage.below(name))


@contextmanager
def open_new_app(app: str, home: str | None) -> Iterator[AppHome]:
    """The home of an app that need not exist yet: its directory is made."""
    from keyfold.cli.home_reader import is_elsewhere, remote_storage
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


def on_disk(app: str | None, home: Path) -> AppHome:
    """The same in a home on a local disk."""
    from keyfold.engine.storage.home_names import apps
    from keyfold.engine.storage.layout import AppHome

    known = {*apps(home), *(path.parent.name for path in home.glob("*/savepoints"))}
    return AppHome(home.resolve() / _chosen(app, sorted(known), home))


def _chosen(app: str | None, known: list[str], home: object) -> str:
    from keyfold.engine.storage.home_names import resolved
    from keyfold.errors import BadOption

    if app is None and len(known) > 1:
        raise BadOption(
            "the home has several apps", given=home, hint=f"--app NAME, one of: {', '.join(known)}"
        )
    return resolved(app or (known[0] if known else ""), home, known, table=False)[0]
