"""Other places of a key: in the columns of the streams that it is computed from, and in other tables."""

from __future__ import annotations

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery.key_erasure import TableKey, declared_key


def source_columns(home: AppHome, table: str, key: TableKey) -> dict[str, str] | None:
    """The values by the columns of the streams that make up the key; None if an expression computes it."""
    expressions = declared_key(home, table)
    columns = {name: str(expressions.get(name, "")).strip("`") for name in key.names}
    if not all(column.isidentifier() for column in columns.values()):
        return None
    return {columns[name]: value for name, value in key.columns.items()}


def others_with_the_key(home: AppHome, table: str) -> list[str]:
    """Other tables of the app that are keyed by one of the same expressions, and may have the same person."""
    declared = home.read_plan().declared_tables.items()
    keys = {name: {str(each).strip("`") for each in one["key"].values()} for name, one in declared}
    mine = keys.pop(table, set())
    return sorted(name for name, key in keys.items() if key & mine)
