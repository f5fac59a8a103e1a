"""The kinds of operations, in the order in which interrupted ones are finished."""

from __future__ import annotations

from typing import Final

from keyfold.engine.operations.operation import Operation, SavepointOperation

CLONE: Final = Operation("cloning", "keyfold.engine.savepoint.clone")
REMOVE: Final = Operation("removing", "keyfold.engine.operations.removal")
SAVE: Final = Operation("saving", "keyfold.engine.savepoint.capture")
REBUILD_VIEWS: Final = Operation("rebuilding", "keyfold.engine.recovery.view_rebuilding", local=True)
RESCALE: Final = Operation("rescaling", "keyfold.engine.rescale.switch", "rescaling")
REWRITE: Final = Operation("rewriting", "keyfold.engine.surgery.rewriting", "rewriting")
MIGRATE: Final = Operation("migrating", "keyfold.engine.migration.switch", "migrating")
FORGET: Final = Operation("forgetting", "keyfold.engine.erasure.switch", "forgetting/files")
RESTORE: Final = Operation("restoring", "keyfold.engine.savepoint.restoration", "savepoints")

IMPORT: Final = SavepointOperation("importing", "keyfold.engine.savepoint.importing")
DELETE: Final = SavepointOperation("deleting", "keyfold.engine.savepoint.deletion")

KINDS: Final = (
    CLONE,
    REMOVE,
    SAVE,
    IMPORT,
    REBUILD_VIEWS,
    RESCALE,
    REWRITE,
    MIGRATE,
    FORGET,
    RESTORE,
    DELETE,
)
