"""Deletes savepoints, each recorded in `deleting/<name>.json` before, and in the audit log afterwards.

Once recorded, a deletion is committed: if the command is killed, the next command or start finishes it. The
manifest is deleted before all other files, which readers of the savepoint notice (`Savepoints.reading`).
Concurrent commands for one savepoint carry out the same record, and each has a file
`deleting/<name>.json.<id>` meanwhile. While such a file exists, no savepoint of this name is begun, since a
slow command would delete its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from keyfold.engine.operations.kinds import DELETE
from keyfold.engine.operations.operation import read_record
from keyfold.engine.savepoint.manifest import FILE, Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.processes import alive, identity, same_host, this_host
from keyfold.errors import NameTaken, QueryError, SavepointUnusable
from keyfold.fault_points import FaultPoint, reached

_JSON: Final = ".json"


@dataclass(frozen=True)
class Deletion:
    """Deletes savepoints; `held`: this process holds the home; otherwise a running app does."""

    home: AppHome
    why: str | None
    held: bool

    def delete(self, name: str) -> None:
        """Deletes one savepoint, or raises `QueryError` not_found; it may be damaged."""
        if _name(name) not in self.home.storage.list(DELETE.name):
            self._record("savepoint delete", name)
        _finish(self.home, name, self._audit)

    def prune(self, keep: int, older_than: timedelta | None) -> list[Savepoint]:
        """Deletes all but the newest `keep` if they are older; returns the deleted ones."""
        found = Savepoints(self.home).all()
        limit = None if older_than is None else datetime.now(UTC) - older_than
        old = [one for one in found[: max(0, len(found) - keep)] if limit is None or one.at < limit]
        for one in old:
            with suppress(QueryError):  # another command has deleted it by now
                self._record("savepoint prune", one.name)
            _finish(self.home, one.name, self._audit)
        return old

    def _record(self, what: str, name: str) -> None:
        savepoints, intent = Savepoints(self.home), f"{DELETE.name}/{_name(name)}"
        entry = self._entry(what, name, savepoints.manifest(name))
        # Of two concurrent commands, one records the deletion, and both finish it.
        if self.home.storage.put_new(intent, json.dumps(entry).encode()):
            try:
                savepoints.manifest(name)
            except QueryError:  # the other command has finished, and is in the audit log
                self.home.storage.delete(intent)
                raise
        reached(FaultPoint.DELETION_RECORDED, name=name)

    def _entry(self, what: str, name: str, manifest: bytes) -> dict[str, Any]:
        try:
            tables = Savepoints(self.home).find(name).tables
        except SavepointUnusable:
            tables = {}
        return audit.entry(
            what,
            self.why,
            savepoint=name,
            tables=list(tables),
            batches={table: saved.batch for table, saved in tables.items()},
            manifest=hashlib.sha256(manifest).hexdigest(),
        )

    def _audit(self, entry: dict[str, Any]) -> None:
        (audit.append if self.held else audit.leave)(self.home.storage, entry)


def require_none(home: AppHome, name: str) -> None:
    """Refuses a new savepoint with the name of one being deleted, which would delete the new files too."""
    if _name(name) in home.storage.list(DELETE.name) or _at_it(home, name):
        raise NameTaken(
            f"savepoint {name} of app {home.path.name} is being deleted",
            given=name,
            hint=f"another name; or finish that first: keyfold savepoint delete {name}",
        )


def finish(home: AppHome, *, held: bool = True) -> None:
    """Carries out recorded deletions, again if necessary; `held`: whether this process holds the home."""
    audited = audit.append if held else audit.leave
    for file in home.storage.list(DELETE.name):
        if file.endswith(_JSON):
            _finish(home, file.removesuffix(_JSON), lambda entry: audited(home.storage, entry))
    for file in home.storage.list(DELETE.name):
        # The holder of the home does nothing else with savepoints meanwhile.
        if not file.endswith(_JSON) and not _is_at_it(home, file, but=os.getpid()):
            home.storage.delete(f"{DELETE.name}/{file}")


def _finish(home: AppHome, name: str, audited: Callable[[dict[str, Any]], None]) -> None:
    storage, intent = home.storage, f"{DELETE.name}/{_name(name)}"
    mine = f"{intent}.{uuid.uuid4().hex}"
    storage.put(mine, json.dumps({"host": this_host(), "process": identity(os.getpid())}).encode())
    try:
        # Only now: while it is recorded, no savepoint of this name is begun until this command is done.
        entry = read_record(storage, intent)
        if entry is not None:
            own = Savepoints(home).storage(name)
            # By now the name may belong to another savepoint, which this command must not touch.
            if Savepoints(home).has(name, entry["manifest"]):
                own.delete(FILE)
            reached(FaultPoint.DELETION_DONE, name=name)
            if FILE not in own.list():
                storage.delete(f"savepoints/{name}")
            audited(entry)
            storage.delete(intent)
    finally:
        storage.delete(mine)


def _at_it(home: AppHome, name: str) -> bool:
    """Whether a process is deleting a savepoint, as far as that can be determined."""
    found = [file for file in home.storage.list(DELETE.name) if not file.endswith(_JSON)]
    return any(file.rpartition(".")[0] == _name(name) and _is_at_it(home, file) for file in found)


def _is_at_it(home: AppHome, file: str, but: int | None = None) -> bool:
    """Whether the process that has a file is running; unknown for one on another host."""
    found = read_record(home.storage, f"{DELETE.name}/{file}")
    if found is None:
        return False
    if not same_host(found["host"], this_host()):
        return but is None
    return alive(found["process"]) is not None and found["process"]["pid"] != but


def _name(savepoint: str) -> str:
    return f"{savepoint}{_JSON}"
