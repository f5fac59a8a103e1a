"""Whether a savepoint is complete, and fits the app to restore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keyfold.engine.log.manifest import LAYOUT
from keyfold.engine.operations.files import in_parallel
from keyfold.engine.recovery.definition_check import version
from keyfold.engine.savepoint.manifest import SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES
from keyfold.engine.storage.contract import Storage
from keyfold.errors import SavepointUnusable
from keyfold.kernel.build import spark_version


@dataclass(frozen=True)
class Damage:
    """A file of a savepoint, and its defect."""

    path: str
    problem: str


def damages(
    savepoint: Savepoint, storage: Storage, progress: Callable[[str, int, int], None]
) -> list[Damage]:
    """Every file that is missing, altered or not part of the savepoint."""
    files = [(storage.below(FILES), file) for file in savepoint.files]
    if savepoint.view is not None:
        files.append((storage, savepoint.view))
    found = []
    for number, problem in enumerate(in_parallel(files, lambda one: _problem(*one)), 1):
        progress("read", number, len(files))
        if problem is not None:
            found.append(Damage(files[number - 1][1].path, problem))
    return [*found, *_extra(savepoint, storage.below(FILES))]


def _problem(storage: Storage, file: SavedFile) -> str | None:
    try:
        found = storage.sha256(file.path)
    except FileNotFoundError:
        return "is missing"
    return None if found == file.sha256 else "was altered"


def _extra(savepoint: Savepoint, storage: Storage) -> Iterator[Damage]:
    known = {file.path for file in savepoint.files}
    for file in storage.files():
        if file.name not in known:
            yield Damage(file.name, "is not part of the savepoint")


def require_whole(savepoint: Savepoint, storage: Storage, progress: Callable[[str, int, int], None]) -> None:
    """Refuses a damaged savepoint, and names the files."""
    found = damages(savepoint, storage, progress)
    if found:
        raise SavepointUnusable(
            f"savepoint {savepoint.name} of {savepoint.app} is damaged; nothing was changed",
            given="\n".join(f"{one.path} {one.problem}" for one in found),
            hint="restore these files from a backup, or use another savepoint: keyfold savepoint list",
        )


def require_usable(savepoint: Savepoint) -> None:
    """Refuses a savepoint of another layout, or whose state a newer Spark has written."""
    if savepoint.home_layout != LAYOUT:
        raise SavepointUnusable(
            f"savepoint {savepoint.name} has files of layout {savepoint.home_layout}, and this version of "
            f"keyfold reads layout {LAYOUT}",
            given=savepoint.name,
            hint="use the version of keyfold that wrote it",
        )
    if version(savepoint.spark) > version(spark_version()):
        raise SavepointUnusable(
            f"savepoint {savepoint.name} was written by Spark {savepoint.spark}, and this is Spark "
            f"{spark_version()}",
            given=savepoint.name,
            hint=f"install pyspark {savepoint.spark} or newer; an older Spark may not read its state",
        )
