"""Since when columns that a migration added cover rows, for commands that show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyfold.engine.storage.home_names import home_of


def columns_known_since(
    app: str, tables: Sequence[str], home: str | None
) -> dict[str, dict[str, dict[str, Any]]]:
    """By table and column, since when columns cover rows, as far as the home records it."""
    from keyfold.engine.storage.known_since import known_since
    from keyfold.engine.storage.layout import AppHome

    plan = AppHome(home_of(home).resolve() / app).read_plan()
    found = {table: known_since(plan, table) for table in tables}
    return {table: {n: one.document() for n, one in since.items()} for table, since in found.items() if since}


def say_known_since(name: str, home: str | None) -> None:
    """Says below rows which of their columns don't know of all rows."""
    from keyfold.cli import output
    from keyfold.cli.terminal import log_lines
    from keyfold.engine.storage.home_names import find

    app_home, table = find(home_of(home), name)
    for columns in columns_known_since(app_home.path.name, [table], home).values():
        for column, since in columns.items():
            output.say(log_lines.known_since(column, since))
