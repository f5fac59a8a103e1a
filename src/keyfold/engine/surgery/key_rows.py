"""The rows of a key in a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyfold.views.contract import ViewSchema, ViewStore
from keyfold.views.keys import narrow, own_keys
from keyfold.views.query.filters import Filter
from keyfold.views.query.where_parser import filter_of


def rows_of_key(store: ViewStore, table: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows whose key has these values, as text, by column; some columns of the key are enough."""
    return [dict(row) for row in store.scan(table, key_filter(store.schema(table), columns))]


def key_filter(schema: ViewSchema, columns: Mapping[str, str]) -> Filter:
    """The filter of those rows."""
    key = dict(columns) if len(own_keys(schema)) > 1 else list(columns.values())
    return filter_of(narrow(schema, None, key), schema)
