"""Opens the log of a table or stream, for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyfold.engine.log.table_log import TableLog
    from keyfold.engine.storage.layout import AppHome


@contextmanager
def open_log(name: str, home: str | None) -> Iterator[tuple[AppHome, TableLog]]:
    """The log of a table or a stream, and the home of its app."""
    from keyfold.cli.home.homes import opened_app

    with opened_app(name, home, any_files=True) as (app, part):
        yield app.home, app.log(part, name)
