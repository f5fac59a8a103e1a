"""The audit log of an app: who did what to its state, and when, a line each in `audit.jsonl`.

Each line has the hash of the line before it, so that one which was changed or removed later shows.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.engine.storage.contract import Storage

_FILE: Final = "audit.jsonl"
_BEGINNING: Final = "0" * 64


@dataclass(frozen=True)
class Break:
    """A line that does not follow from the one before it."""

    line: int
    problem: str


def entry(what: str, why: str | None, **facts: Any) -> dict[str, Any]:
    """What somebody is about to do, with who and when."""
    return {
        "id": uuid.uuid4().hex,
        "at": datetime.now(UTC).isoformat(),
        "user": user(),
        "what": what,
        **facts,
        "why": why,
    }


def user() -> str:
    """Who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())


def append(storage: Storage, added: Mapping[str, Any]) -> None:
    """Adds an entry, unless an earlier attempt did. The caller holds the home."""
    before = _read(storage)
    lines = before.splitlines()
    if added["id"].encode() in before:
        return
    last = _hash(lines[-1]) if lines else _BEGINNING
    line = json.dumps({**added, "previous": last}, ensure_ascii=False)
    storage.put(_FILE, b"".join(one + b"\n" for one in lines) + line.encode() + b"\n")


def entries(storage: Storage) -> list[dict[str, Any]]:
    """The entries that can be read, oldest first."""
    found = (_parsed(line) for line in _read(storage).splitlines())
    return [one for one in found if one is not None]


def breaks(storage: Storage) -> list[Break]:
    """Where the chain of hashes is broken. It can't show that the newest lines are missing."""
    found, last = [], _BEGINNING
    for number, line in enumerate(_read(storage).splitlines(), 1):
        parsed = _parsed(line)
        if parsed is None:
            found.append(Break(number, "is not an entry"))
        elif parsed.get("previous") != last:
            found.append(Break(number, "does not follow from the line before, which was changed or removed"))
        last = _hash(line)
    return found


def _read(storage: Storage) -> bytes:
    try:
        return storage.read(_FILE)
    except FileNotFoundError:
        return b""


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
