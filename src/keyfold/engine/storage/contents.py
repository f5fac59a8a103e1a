"""The tables and streams that have files in an app's home, and which tables have read which."""

from __future__ import annotations

from contextlib import suppress

from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import HomeUnusable


def tables(home: AppHome) -> list[str]:
    """The tables with files in an app's home, whether or not the app still declares them."""
    return sorted(set(home.storage.list("tables")) | set(readable_plan(home).tables))


def streams(home: AppHome) -> list[str]:
    """The streams that have a log in an app's home."""
    found = home.storage.list("streams")
    return sorted(name for name in found if "checkpoint" in home.stream_home(name).storage.list())


def home_of(home: AppHome, name: str) -> TableHome:
    """The home of a table, or of a stream that has a log."""
    return home.table(name) if name in tables(home) else home.stream_home(name)


def readers(home: AppHome, table: str) -> list[str]:
    """The tables that have folded rows of another one, or of a stream's log."""
    return [name for name in home.storage.list("tables") if _reads(home.table(name), table)]


def _reads(home: TableHome, table: str) -> bool:
    inputs = home.storage.list("inputs")
    return any(name.partition("-")[2] == table for name in inputs) and home.planned_batch() is not None


def with_readers(home: AppHome, table: str) -> list[str]:
    """A table, those that read it, those that read these, and so on."""
    found = [table]
    for name in found:
        found += [reader for reader in readers(home, name) if reader not in found]
    return found


def readable_plan(home: AppHome) -> StoredApp:
    """The content of app.json, if it can be read; for those who can do without it."""
    with suppress(HomeUnusable):
        return home.read_plan()
    return StoredApp()
