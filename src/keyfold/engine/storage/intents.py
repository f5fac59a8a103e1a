"""What a command records before it changes anything, so that whoever comes after a kill can finish it."""

from __future__ import annotations

import json
from typing import Any

from keyfold.engine.storage.contract import Storage


def recorded(storage: Storage, name: str) -> dict[str, Any] | None:
    """The document that a command has written; None if there is none."""
    try:
        found: dict[str, Any] = json.loads(storage.read(name))
    except FileNotFoundError:
        return None
    return found


def record(storage: Storage, name: str, document: dict[str, Any]) -> None:
    """Writes what is certain from here on."""
    storage.put(name, json.dumps(document, ensure_ascii=False).encode())
