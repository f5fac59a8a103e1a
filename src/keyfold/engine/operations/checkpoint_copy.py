"""A linked copy of a checkpoint: for Spark to add files to, to read, or to replace another one."""

from __future__ import annotations

from collections.abc import Sequence

from keyfold.engine.operations.files import copy_files
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint


def working_copy(home: AppHome, table: str, directory: str) -> SparkCheckpoint:
    """A table's checkpoint below a directory of its own, to which Spark can add files."""
    home.storage.delete(directory)
    return copy_checkpoint(home.storage, f"tables/{table}/checkpoint", f"{directory}/checkpoint")


def replace_checkpoint(storage: Storage, source: str, table: str) -> None:
    """Puts a prepared checkpoint, if there is one, in the place of a table's own; it stays there as well."""
    files = [file.name for file in storage.files(source)]
    if files:
        target = f"tables/{table}/checkpoint"
        storage.delete(target)
        copy_checkpoint(storage, source, target, files)


def copy_checkpoint(
    storage: Storage, source: str, target: str, names: Sequence[str] | None = None
) -> SparkCheckpoint:
    """Links the files of a checkpoint, or those with these names, into another directory.

    The absolute paths in its metadata then lead to the copy itself.
    """
    files = [file.name for file in storage.files(source)] if names is None else names
    copy_files(storage, files, f"{source}/", f"{target}/")
    found = SparkCheckpoint(storage.below(target))
    found.relocate()
    return found
