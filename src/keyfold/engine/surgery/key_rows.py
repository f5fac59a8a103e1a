"""The rows of a key in a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyfold.views.contract import ViewStore
from keyfold.views.keys import narrowed, own_keys


def rows_of_key(store: ViewStore, table: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows whose key has these values, as text, by column; some columns of the key are enough."""
    schema = store.schema(table)
    key = dict(columns) if len(own_keys(schema)) > 1 else list(columns.values())
    return [dict(row) for row in store.scan(table, narrowed(schema, None, key))]
