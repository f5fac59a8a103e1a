"""Names in PostgreSQL: which schema has an app's views, and how tables and columns are called there."""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Final

from keyfold.views.contract import Location

CATALOG: Final = "_keyfold_views"
"""The table, beside the views, of their names, schemas and positions."""
_LONGEST: Final = 63
_DIGITS: Final = 10
# Columns that PostgreSQL itself adds to each table.
_SYSTEM: Final = frozenset(("ctid", "cmin", "cmax", "xmin", "xmax", "tableoid"))


def quoted(*names: str) -> str:
    """An identifier, with its schema before it if there is one; `%` is doubled, as in all statements."""
    return ".".join('"' + name.replace('"', '""').replace("%", "%%") + '"' for name in names)


def schema_of(location: Location) -> str:
    """The schema of an app's views: a database may have those of apps of one name in several homes."""
    app = re.sub(r"[^a-z0-9_]", "_", location.app.lower())
    return f"keyfold_{app[:40]}_{_digest(location.home, location.app)}"


@functools.lru_cache(maxsize=4096)
def identifier(name: str) -> str:
    """What a table or column is called, in lower case: SQL finds it in any case without quotes.

    >>> identifier("Total"), identifier("xmin")
    ('total', 'xmin_9eb3b6d69b')
    """
    lower = name.lower()
    if len(lower.encode()) <= _LONGEST and lower not in _SYSTEM:
        return lower
    room = _LONGEST - _DIGITS - 1
    return f"{lower.encode()[:room].decode(errors='ignore')}_{_digest(lower)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]
