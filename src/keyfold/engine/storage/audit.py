"""The audit log of an app: who did what to its state, and when, one line per operation in `audit.jsonl`.

Each line has the hash of the previous one, so that later changes and removals show. A process that does not
hold the home writes its entry to a separate file, which the holder appends to the chain.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.engine.storage.contract import Storage

_FILE: Final = "audit.jsonl"
LEFT: Final = "audit"
"""The directory of entries that are not yet in the chain."""
_BEGINNING: Final = "0" * 64


@dataclass(frozen=True)
class Break:
    """A line whose hash does not match the line before it."""

    line: int
    problem: str


def entry(what: str, why: str | None, **facts: Any) -> dict[str, Any]:
    """An operation about to start, with user and time."""
    return {
        "id": uuid.uuid4().hex,
        "at": datetime.now(UTC).isoformat(),
        "user": user(),
        "what": what,
        **facts,
        "why": why,
    }


def user() -> str:
    """The user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())


def append(storage: Storage, added: Mapping[str, Any]) -> None:
    """Appends an entry, unless an earlier attempt did. The caller holds the home."""
    left = _entries_left(storage)
    _extend(storage, [*left, added])
    _delete_left(storage, left)


def leave(storage: Storage, added: Mapping[str, Any]) -> None:
    """Leaves an entry for the process that holds the home, or the next one: two writers would lose lines."""
    storage.put_new(f"{LEFT}/{added['id']}.json", json.dumps(added, ensure_ascii=False).encode())


def settle(storage: Storage) -> None:
    """Appends the entries that other processes left to the chain. The caller holds the home."""
    left = _entries_left(storage)
    _extend(storage, left)
    _delete_left(storage, left)


def _extend(storage: Storage, added: Sequence[Mapping[str, Any]]) -> None:
    before = _read(storage)
    lines = before.splitlines()
    known = len(lines)
    # An entry may have been left, and also been appended by the process that finished its operation.
    for one in {one["id"]: one for one in added}.values():
        if one["id"].encode() not in before:
            last = _hash(lines[-1]) if lines else _BEGINNING
            lines.append(json.dumps({**one, "previous": last}, ensure_ascii=False).encode())
    if len(lines) > known:
        storage.put(_FILE, b"".join(line + b"\n" for line in lines))


def _delete_left(storage: Storage, left: Sequence[Mapping[str, Any]]) -> None:
    for one in left:
        storage.delete(f"{LEFT}/{one['id']}.json")


def _entries_left(storage: Storage) -> list[dict[str, Any]]:
    """The entries that other processes left, oldest first."""
    found = []
    for name in storage.list(LEFT):
        with suppress(FileNotFoundError):  # the holder of the home has added it to the chain
            found.append(_parse(storage.read(f"{LEFT}/{name}")))
    return sorted((one for one in found if one is not None), key=lambda one: str(one["at"]))


def entries(storage: Storage) -> list[dict[str, Any]]:
    """The readable entries, oldest first, followed by those that are not yet in the chain."""
    left = _entries_left(storage)  # first, since it may be appended to the chain meanwhile
    found = [one for line in _read(storage).splitlines() if (one := _parse(line)) is not None]
    known = {one.get("id") for one in found}
    return [*found, *(one for one in left if one["id"] not in known)]


def breaks(storage: Storage) -> list[Break]:
    """The lines at which the chain of hashes is broken. Missing newest lines can't be detected."""
    found, last = [], _BEGINNING
    for number, line in enumerate(_read(storage).splitlines(), 1):
        parsed = _parse(line)
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


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
