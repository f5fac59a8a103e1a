"""The audit log line of an imported savepoint, recorded in `importing/<name>.json` before it exists.

An import may run beside the app. A process that finds the record writes the line if the savepoint exists;
otherwise the import may still be running, and the record stays until the next one of that name.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from keyfold.engine.operations.kinds import IMPORT
from keyfold.engine.operations.operation import read_record
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome


def record(home: AppHome, savepoint: Savepoint, source: object, why: str | None) -> dict[str, Any]:
    """Records a savepoint that is about to exist, once its files are in place; returns the entry."""
    entry = audit.entry(
        "savepoint import",
        why,
        savepoint=savepoint.name,
        tables=list(savepoint.tables),
        batches={table: saved.batch for table, saved in savepoint.tables.items()},
        file=str(source),
        manifest=hashlib.sha256(savepoint.encode()).hexdigest(),
    )
    home.storage.put(_name(savepoint.name), json.dumps(entry, ensure_ascii=False).encode())
    return entry


def discard(home: AppHome, name: str) -> None:
    """Discards an import that failed, or was interrupted before its savepoint existed."""
    home.storage.delete(_name(name))


def complete(home: AppHome, entry: dict[str, Any], *, held: bool) -> None:
    """Writes the line; `held`: whether this process holds the home."""
    (audit.append if held else audit.leave)(home.storage, entry)
    discard(home, entry["savepoint"])


def finish(home: AppHome, *, held: bool = True) -> None:
    """Writes the lines of savepoints that exist, and whose import was interrupted."""
    for file in home.storage.list(IMPORT.name):
        entry = read_record(home.storage, f"{IMPORT.name}/{file}")
        # The imported savepoint, not another one of its name.
        if entry is not None and Savepoints(home).has(entry["savepoint"], entry["manifest"]):
            complete(home, entry, held=held)


def _name(savepoint: str) -> str:
    return f"{IMPORT.name}/{savepoint}.json"
