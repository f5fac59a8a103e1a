"""A batch whose parts are written before Spark commits it, as in real-time mode.

There a batch that is interrupted runs again with other rows: what it has written must not be published before
Spark has committed it. So its manifest has another name at first, and joins the log once the commit is there.
Who comes after a crash between the two finds both, and publishes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.fault_points import FaultPoint, reached

_NAME: Final = "prepared.json"


def prepare(log: TableLog, manifest: Manifest) -> None:
    """Keeps the manifest of a batch that Spark is about to commit; it replaces that of an earlier attempt."""
    log.storage.put(_NAME, manifest.encode())


def settle(home: TableHome, table: str) -> Manifest | None:
    """Publishes the batch that was prepared, if Spark has committed it, and else forgets it.

    Returns what it has published. The caller holds the lease, and no batch of the table runs.
    """
    log = TableLog(home.log_files)
    file = StoredFile(log.storage, _NAME)
    try:
        found = manifests.decode(file.read_bytes(), file)
    except FileNotFoundError:
        return None
    published = _published(home, log, found)
    if published is not None:
        reached(FaultPoint.BATCH_PUBLISHED, table=table, batch=found.batch)
    log.storage.delete(_NAME)
    return published


def _published(home: TableHome, log: TableLog, found: Manifest) -> Manifest | None:
    newest, committed = log.newest(), home.committed()
    if committed is None or committed < found.batch or (newest is not None and newest >= found.batch):
        return None
    spark = home.spark
    spark.sync_commit(found.batch)
    whole = replace(
        found,
        previous=newest,
        watermark=spark.watermark(found.batch),
        offsets=tuple(spark.offset_documents(found.batch)),
    )
    # Only the holder of the lease comes here, and has seen that it is not there.
    return whole if log.storage.put_new(log.file(found.batch).path, whole.encode()) else None


def settle_all(home: AppHome) -> None:
    """The same for every table of a home that no process runs."""
    for name in home.storage.list("tables"):
        settle(home.table(name), name)
