"""A batch whose parts are written before Spark commits it, as in real-time mode.

There an interrupted batch runs again with other rows, so it must not be published before Spark has committed
it. Its manifest first has another name, and joins the log once the commit exists. After a crash between the
two, the next start finds both and publishes the batch.
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
    """Records the manifest of a batch that Spark is about to commit, replacing that of an earlier attempt."""
    log.storage.put(_NAME, manifest.encode())


def settle(home: TableHome, table: str) -> Manifest | None:
    """Publishes the prepared batch if Spark has committed it, otherwise discards it.

    Returns the published manifest. The caller holds the lease, and no batch of the table is running.
    """
    log = TableLog(home.log_files)
    file = StoredFile(log.storage, _NAME)
    try:
        found = manifests.decode(file.read_bytes(), file)
    except FileNotFoundError:
        return None
    published = _publish(home, log, found)
    if published is not None:
        reached(FaultPoint.BATCH_PUBLISHED, table=table, batch=found.batch)
    log.storage.delete(_NAME)
    return published


def _publish(home: TableHome, log: TableLog, found: Manifest) -> Manifest | None:
    newest, committed = log.newest(), home.committed_batch()
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
    # Only the holder of the lease gets here, and has seen that it does not exist.
    return whole if log.storage.put_new(log.file(found.batch).path, whole.encode()) else None


def settle_all(home: AppHome) -> None:
    """The same for every table of a home that no process runs."""
    for name in home.storage.list("tables"):
        settle(home.table(name), name)
