"""An operation on a home: prepared beside, recorded, carried out, and written to the audit log.

Nothing depends on prepared files until the operation is recorded, which commits it. If the process is killed,
the next command or start carries it out again, from its beginning. Prepared files are copied into place, not
moved, so that they exist until all of it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from keyfold.engine.operations import leftovers
from keyfold.engine.operations.failure import command_error
from keyfold.engine.storage import audit
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import HomeUnusable, KeyfoldError

_PREPARED: Final = "prepared"
"""What a record has in addition to its document: a directory, its files, and whether copying has begun."""


@dataclass(frozen=True)
class Operation:
    """A kind of operation.

    `module` has its `carry_out(home, document)`, which may run several times. It returns the entry for the
    audit log, or None if there is nothing to write.
    """

    name: str
    """The name; also of the directory for prepared files, which is removed afterwards."""
    module: str
    prepared: str | None = None
    """The directory whose files replace others, if the operation replaces any."""
    local: bool = False
    """Whether it only changes this host's disk, so that another host can't judge its progress."""

    @property
    def record(self) -> str:
        """The file of its record."""
        return f"{self.name}.json"

    @property
    def names(self) -> set[str]:
        """What it leaves in the directory of the home when it is interrupted."""
        return {self.name, self.record}

    @contextmanager
    def preparing(self, home: AppHome, problem: str) -> Iterator[None]:
        """The context of its preparation, which leaves nothing after an error. `problem`: the failed step."""
        try:
            yield
        except BaseException as error:
            leftovers.discard(home, self.name)
            if isinstance(error, Exception) and not isinstance(error, KeyfoldError):
                raise command_error(problem, error) from error
            raise

    def commit(
        self,
        home: AppHome,
        document: dict[str, Any],
        *,
        prepared: str | None = None,
        files: Iterable[str] | None = None,
    ) -> None:
        """Records the operation. `files`: the prepared files that it needs, if not all of them."""
        storage, directory = self._storage(home), prepared or self.prepared
        if directory is not None:
            names = [file.name for file in storage.files(directory)] if files is None else list(files)
            document = {**document, _PREPARED: {"directory": directory, "files": names, "begun": False}}
        _put(storage, self.record, document)

    def finish(self, home: AppHome) -> None:
        """Carries out a recorded operation, or removes an unrecorded one; the caller holds the home."""
        storage = self._storage(home)
        document = read_record(storage, self.record)
        if document is not None:
            if self.prepared is not None:
                self._begin(home, document)
            entry = import_module(self.module).carry_out(home, document)
            if entry is not None:
                audit.append(home.storage, entry)
            storage.delete(self.record)
        leftovers.remove(home, self.name)

    def _storage(self, home: AppHome) -> Storage:
        return LocalStorage(home.local) if self.local else home.storage

    def _begin(self, home: AppHome, document: dict[str, Any]) -> None:
        """Removes the list of prepared files from a document, and refuses it if some of them are missing.

        This happens before anything is replaced; a document of an older version has no list.
        """
        known = document.pop(_PREPARED, None)
        if known is None:
            none = [] if home.storage.files(str(self.prepared)) else ["all of them"]
            self._require(home, document, {"directory": self.prepared, "begun": True}, none)
            return
        found = {file.name for file in home.storage.files(known["directory"])}
        self._require(home, document, known, [file for file in known["files"] if file not in found])
        if not known["begun"]:
            _put(home.storage, self.record, {**document, _PREPARED: {**known, "begun": True}})

    def _require(
        self, home: AppHome, document: dict[str, Any], known: dict[str, Any], missing: list[str]
    ) -> None:
        if not missing:
            return
        entry = document.get("entry") or document.get("audit") or document
        what, directory = entry["what"], f"{home.shown}/{known['directory']}"
        hint = f"restore {directory} from a backup of the home"
        if not known["begun"]:
            hint += f"; or withdraw the {what}, of which nothing was carried out: "
            hint += f"delete {home.shown}/{self.record}"
        more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise HomeUnusable(
            f"the {what} of {home.path.name} ({', '.join(entry['tables'])}) was interrupted, and can't be "
            f"finished: files are missing that it has prepared in {directory}; nothing was changed",
            given=f"{missing[0]}{more}",
            hint=hint,
        )


@dataclass(frozen=True)
class SavepointOperation:
    """A kind of operation on a savepoint, with a record for each below its directory: the app may be running.

    `module` has its `finish(home, held=)`; `held`: whether this process holds the home.
    """

    name: str
    module: str

    @property
    def names(self) -> set[str]:
        """What it leaves in the directory of the home when it is interrupted."""
        return {self.name}

    def finish(self, home: AppHome, *, held: bool = True) -> None:
        """Carries out the recorded operations."""
        import_module(self.module).finish(home, held=held)


def read_record(storage: Storage, name: str) -> dict[str, Any] | None:
    """A recorded document; None if there is none."""
    try:
        found: dict[str, Any] = json.loads(storage.read(name))
    except FileNotFoundError:
        return None
    return found


def _put(storage: Storage, name: str, document: dict[str, Any]) -> None:
    storage.put(name, json.dumps(document, ensure_ascii=False).encode())
