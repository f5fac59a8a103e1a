"""Named points at which a test can make keyfold fail or wait; by default nothing happens there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any


class FaultPoint(StrEnum):
    """Each name says what has just happened; the facts that a handler gets are in parentheses."""

    BATCH_BEGUN = "batch begun"  # (table, batch) nothing has been computed or written
    PARTS_WRITTEN = "parts written"  # (table, batch) every task has committed its state; nothing is published
    BATCH_PUBLISHED = "batch published"  # (table, batch) its manifest is in place
    VIEW_WRITTEN = "view written"  # (table, batch) rows are in the open transaction, the position is not
    VIEW_COMMITTED = "view committed"  # (table, batch) in the view's own thread
    SINK_NUMBER_REMOVED = "sink number removed"  # (table, number) its position exists under a name
    SINK_WRITTEN = "sink written"  # (table, batch) its position is not recorded yet
    BATCH_DONE = "batch done"  # (table, batch) only Spark's commit is left
    MERGE_WRITTEN = "merge written"  # (batches) the merged files of a log; nothing refers to them yet
    MERGE_PUBLISHED = "merge published"  # (batches) the replaced batches still exist
    MERGE_MANIFESTS_REMOVED = "merge manifests removed"  # (batches) those of each batch; their parts exist
    SNAPSHOT_WRITTEN = "snapshot written"  # (table, batch) for a table that begins to read another
    SNAPSHOT_RECORDED = "snapshot recorded"  # (table, batch)
    REMOVAL_REQUESTED = "removal requested"  # () nothing has been written
    REMOVAL_RECORDED = "removal recorded"  # () the next command or start finishes it
    FILES_REMOVED = "files removed"  # () of one table
    VIEWS_REMOVED = "views removed"  # ()
    DEFINITION_REMOVED = "definition removed"  # ()
    SAVEPOINT_TABLE_TAKEN = "savepoint table taken"  # (table) its files have their second names
    SAVEPOINT_READ = "savepoint read"  # (name) its checksums are known, and it is about to exist
    SAVEPOINT_ADDED = "savepoint added"  # (name) it exists; the audit log does not say so yet
    DELETION_RECORDED = "deletion recorded"  # (name) of a savepoint; the next command or start finishes it
    DELETION_DONE = "deletion done"  # (name) no manifest; files remain, no line of audit yet
    RESTORE_REQUESTED = "restore requested"  # () nothing has been written
    RESTORE_RECORDED = "restore recorded"  # () the next command or start finishes it
    RESTORE_TABLE_DONE = "restore table done"  # (table)
    RESTORE_VIEW_DONE = "restore view done"  # ()
    RESTORE_PLAN_DONE = "restore plan done"  # ()
    RESCALE_READY = "rescale ready"  # (table) the new state is beside the old one, and equal
    RESCALE_RECORDED = "rescale recorded"  # (table) the next command or start finishes it
    RESCALE_SWITCHED = "rescale switched"  # (table) the checkpoint is the new one
    REWRITE_READY = "rewrite ready"  # (tables) the new state is beside the old one
    REWRITE_RECORDED = "rewrite recorded"  # (tables) the next command or start finishes it
    REWRITE_TABLE_DONE = "rewrite table done"  # (table) its checkpoint is the new one, its log has more
    MIGRATION_COMPUTED = "migration computed"  # (table) the rows of the new state; none is written
    MIGRATION_READY = "migration ready"  # () new states and views are beside the old ones
    MIGRATION_RECORDED = "migration recorded"  # () the next command or start finishes it
    MIGRATION_COPIED = "migration copied"  # (table) its files have their second names
    MIGRATION_SWITCHED = "migration switched"  # (table) the checkpoint is the new one
    MIGRATION_VIEW_DONE = "migration view done"  # (table)
    MIGRATION_PLAN_DONE = "migration plan done"  # ()
    INITIAL_READY = (
        "initial ready"  # (table) the table has its initial rows, beside the home; nothing is recorded
    )
    FORGET_STAGED = "forget staged"  # () the new files are beside the old ones
    FORGET_RECORDED = "forget recorded"  # () the next command or start finishes it
    FORGET_SWITCHED = "forget switched"  # () the files are the new ones; the view is not yet
    LEASE_FREE = "lease free"  # (epoch) the home is free, and the next epoch is about to begin
    STORAGE_WRITTEN = "storage written"  # (name) on a local disk, under a temporary name
    STORAGE_FLUSHED = "storage flushed"  # (name) on a local disk, about to get its name
    STORAGE_SENDING = "storage sending"  # (name) about to be written to a remote file system
    STORAGE_NAMED = "storage named"  # (name) whole under its name; a local directory is not flushed yet


Handler = Callable[[FaultPoint, dict[str, Any]], None]
_handler: Handler | None = None


def reached(point: FaultPoint, **facts: Any) -> None:
    """Notifies the handler, if there is one, that the process has reached a point."""
    if _handler is not None:
        _handler(point, facts)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Installs a handler for a while. It may raise, wait, or end the process."""
    global _handler
    before, _handler = _handler, handler
    try:
        yield
    finally:
        _handler = before
