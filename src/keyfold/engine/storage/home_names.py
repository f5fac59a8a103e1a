"""Resolves names to apps and tables of a home: `app.table`, or `table` if the home has one app."""

from __future__ import annotations

import os
from pathlib import Path

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local_directory import OWNER, owner
from keyfold.errors import HomeUnusable, QueryError, choice, did_you_mean


def home_of(given: str | os.PathLike[str] | None) -> Path:
    """The home: the argument, else the environment, else the default. Reads need no other setting."""
    text = os.fspath(given or os.environ.get("KEYFOLD_HOME") or ".keyfold")
    if "://" in text:
        from keyfold.settings import load

        # Views and status of a remote home are local files.
        return load(home=text).local_directory
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise HomeUnusable(
            f"the home {text} is not a directory", given=text, hint="--home DIR, or KEYFOLD_HOME"
        )
    return path


def apps(home: Path) -> list[str]:
    """The apps that have run in a home, including those whose app.json is missing."""
    planned = {path.parent.name for file in ("app.json", OWNER) for path in home.glob(f"*/{file}")}
    return sorted(planned | {path.parents[2].name for path in home.glob("*/tables/*/checkpoint")})


def find(home: Path, name: str, *, table: bool = True) -> tuple[AppHome, str]:
    """Resolves `app.table`, or `table` in a home with one app; with `table=False`, an app's name.

    A directory of local files stands for the home to which they belong.
    """
    app, part = resolve(name, home, apps(home), table=table)
    path = home.resolve() / app
    belongs = Path((owner(path) or "").removeprefix("file://"))
    return AppHome(belongs if belongs.is_absolute() and belongs.is_dir() else path), part


def apps_in(storage: Storage) -> list[str]:
    """The apps in the storage of a home that is not on a local disk."""
    return [app for app in storage.list() if {"app.json", "tables"} & set(storage.list(app))]


def resolve(name: str, home: object, known: list[str], *, table: bool = True) -> tuple[str, str]:
    """The app and the table of a name, given the apps of a home."""
    app, _, part = name.rpartition(".") if table else (name, "", "")
    if not known:
        raise QueryError(
            f"no app has run in {home}",
            reason="not_ready",
            given=name or None,
            hint="keyfold run APP.py, or --home DIR",
        )
    if not app and len(known) > 1:
        hint = choice(f"{a}.{part}" for a in known)
        raise QueryError("the home has several apps, and the name does not say which", given=name, hint=hint)
    app = app or known[0]
    if app not in known:
        raise QueryError(
            f"no app {app} in {home}",
            reason="not_found",
            given=name,
            hint=did_you_mean(app, known, choice(known)),
        )
    return app, part
