"""Keys that look like one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.server.key_paths import key_path
from keyfold.views.contract import ViewSchema, ViewStore
from keyfold.views.query.filters import All, Compare, Filter, is_string

_LOOKED_AT: Final = 1_000
_SHOWN: Final = 3


def near(store: ViewStore, schema: ViewSchema, key: Sequence[str]) -> list[str]:
    """Keys near a given one, as addresses have them; of a big table only those that begin like it."""
    names = [column.name for column in schema.keys]
    given = key_path(key)
    found: dict[str, None] = {}
    for where in _places(schema, key):
        try:
            rows = store.scan(schema.table, where, limit=_LOOKED_AT, columns=names)
        except QueryError:
            continue
        found |= {key_path(list(row.values())): None for row in rows}
    return difflib.get_close_matches(given, found, n=_SHOWN, cutoff=0.6)


def _places(schema: ViewSchema, key: Sequence[str]) -> list[Filter]:
    """Where to look: rows with the same first parts, from the first letter of the last on; and anywhere."""
    same: list[Any] = [Compare(c, "=", part) for c, part in zip(schema.keys, key[:-1], strict=False)]
    last = schema.keys[min(len(key), len(schema.keys)) - 1]
    letter = [Compare(last, ">=", key[-1][:1])] if key[-1:] and is_string(last) else []
    places = [All((*same, *letter)), All(tuple(same)), All(())]
    return list(dict.fromkeys(places))
