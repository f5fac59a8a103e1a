"""Opens a store of views by its URL; a new kind of store is a line in `STORES`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from keyfold.errors import BadOption
from keyfold.masking import masked
from keyfold.views.contract import ViewStore

Opener = Callable[[str, bool], ViewStore]
"""Takes what follows `scheme://` and whether the store is for reading only."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def _sqlite(path: str, read_only: bool) -> ViewStore:
    from keyfold.views.sqlite.store import SqliteStore

    return SqliteStore(Path(path), read_only=read_only)


def _none(rest: str, read_only: bool) -> ViewStore:
    from keyfold.views.none import NoViews

    return NoViews()


STORES: Final[dict[str, Opener]] = {"sqlite": _sqlite, "none": _none}
"""What opens a store, by the scheme of its URL."""


def damage_advice(error: str) -> str | None:
    """The advice for a damaged store, if an error's text says that one is damaged."""
    from keyfold.views.sqlite import connections

    return connections.RECOVERY if connections.damaged(error) else None


def open_store(url: str | os.PathLike[str], *, read_only: bool) -> ViewStore:
    """The store at a URL: `sqlite:///srv/views.db`, a plain path (SQLite), or `none`.

    A SQLite file that doesn't exist is created; with `read_only`, reads are a `QueryError` not_ready until it
    exists. An unknown scheme is a `BadOption`.
    """
    text = os.fspath(url)
    if isinstance(url, str) and text == "none":
        return _none("", read_only)
    match = _URL.fullmatch(text) if isinstance(url, str) else None
    if match is None:
        return _sqlite(text, read_only)
    scheme, rest = match.groups()
    opener = STORES.get(scheme.lower())
    if opener is None:
        listed = f"one of: {', '.join(f'{name}://' for name in sorted(STORES))}; or the path of a SQLite file"
        raise BadOption(f"unknown scheme {scheme!r} of a view store", given=masked(text), hint=listed)
    return opener(rest, read_only)
