"""Keys in addresses: each part percent-encoded, separated by slashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from keyfold.errors import QueryError
from keyfold.read.values import plain, word


def key_parts(raw_path: bytes) -> list[str]:
    """What follows `/keys/` in an address, before its percent-encoding is undone: a part may have a slash."""
    parts = raw_path.split(b"/")
    # ['', 'api', 'apps', app, 'tables', table, 'keys', ...], or ['', 'api', 'tables', table, 'keys', ...]
    head = [unquote_to_bytes(part) for part in parts[:7]]
    start = 7 if head[2:3] == [b"apps"] else 5
    if head[start - 1 : start] != [b"keys"] or any(b"/" in part for part in head[:start]):
        # The route was found in the decoded address, which has other parts than this one.
        what, given = "only keys may have %2F in an address", raw_path.decode("ascii", "replace")
        raise QueryError(what, reason="not_found", given=given)
    return [_text(part) for part in parts[start:]]


def key_path(parts: Sequence[Any]) -> str:
    """The parts of a key as an address has them."""
    return "/".join(quote(word(plain(part)), safe="") for part in parts)


def _text(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise QueryError(
            "the key in the address is not UTF-8", given=part.decode("ascii", "replace"), hint="%C3%A4 for ä"
        ) from None
