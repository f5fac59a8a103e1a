"""Publishes a table's batches: tasks write the parts, then the manifest appears."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from keyfold.engine.log import partition_times, prepared
from keyfold.engine.log.manifest import Manifest, Part, Reason
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import HomeLocked
from keyfold.fault_points import FaultPoint, reached
from keyfold.kernel.api import LogApi, PartitionClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LogWriter:
    """Writes one table's log, as long as this process holds the lease."""

    def __init__(self, kernel: LogApi, log: TableLog, table: str, lease: Lease) -> None:
        self._kernel, self._log, self._table, self._lease = kernel, log, table, lease
        self._parts = kernel.logWriter()
        self.newest = log.newest()
        """The newest batch that is published."""

    def publish(
        self,
        frame: DataFrame,
        batch: int,
        *,
        changes: bool,
        watermark: datetime | None,
        offsets: Sequence[Any],
        skipped: Sequence[Mapping[str, Any]] = (),
        clocks: Mapping[str, PartitionClock] | None = None,
    ) -> Manifest:
        """Runs a batch and publishes its rows. `changes`: whether somebody reads them; else they are counted.

        `skipped`: rejected rows that stand for input files which are missing. `clocks`: the kernel's clocks
        of the partitions of topics, by stream.
        """
        name = f"data/{batch}-{secrets.token_hex(4)}"
        written = json.loads(
            self._kernel.writeLog(self._parts, frame._jdf, self._log.storage.uri(name), changes)
        )
        parts = [Part(**{**part, "path": f"{name}/{part['path']}"}) for part in written["parts"]]
        if skipped:
            parts.append(self._skipped_part(name, skipped))
            written["counts"]["rejected"] += len(skipped)
        reached(FaultPoint.PARTS_WRITTEN, table=self._table, batch=batch)
        # Whoever was suspended while tasks ran, and was taken over, publishes nothing.
        self._lease.check()
        manifest = Manifest(
            batch=batch,
            epoch=self._lease.epoch,
            at=datetime.now(UTC),
            watermark=watermark,
            counts=written["counts"],
            parts=tuple(parts),
            reasons=tuple(Reason(**reason) for reason in written["reasons"]),
            offsets=tuple(offsets),
            previous=self.newest,
            times=partition_times.newest(clocks or {}),
        )
        if not self._log.storage.put_new(self._log.file(batch).path, manifest.encode()):
            raise HomeLocked(
                f"another process has published batch {batch} of {self._table}",
                given=self._log.file(batch),
                hint="run the app in one process only",
            )
        self.newest = batch
        reached(FaultPoint.BATCH_PUBLISHED, table=self._table, batch=batch)
        return manifest

    def prepare(
        self,
        name: str,
        batch: int,
        written: Mapping[str, Any],
        clocks: Mapping[str, PartitionClock] | None = None,
    ) -> None:
        """Records a batch whose parts are below `name`, and that Spark has not committed; see `prepared`."""
        self._lease.check()
        manifest = Manifest(
            batch=batch,
            epoch=self._lease.epoch,
            at=datetime.now(UTC),
            watermark=None,
            counts=written["counts"],
            parts=tuple(Part(**{**part, "path": f"{name}/{part['path']}"}) for part in written["parts"]),
            reasons=tuple(Reason(**reason) for reason in written["reasons"]),
            times=partition_times.newest(clocks or {}),
        )
        prepared.prepare(self._log, manifest)

    def settle(self, home: TableHome) -> Manifest | None:
        """Publishes the batch that was prepared, if Spark has committed it."""
        self._lease.check()
        manifest = prepared.settle(home, self._table)
        if manifest is not None:
            self.newest = manifest.batch
        return manifest

    def run_again(self, frame: DataFrame) -> None:
        """Runs a batch that is published, for its state alone: what followers saw stays as it is."""
        self._kernel.writeLog(self._parts, frame._jdf, None, False)

    def _skipped_part(self, directory: str, rows: Sequence[Mapping[str, Any]]) -> Part:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([(name, pa.string()) for name in ("kind", "reason", "raw", "stream")])
        out = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([{"kind": "rejected", **row} for row in rows], schema), out)
        name, content = f"{directory}/part-rejected-skipped.parquet", out.getvalue().to_pybytes()
        self._log.storage.put(name, content)
        return Part(name, "rejected", len(rows), len(content), f"crc32:{zlib.crc32(content):08x}")

    def sweep(self) -> None:
        """Removes the parts of attempts that a killed process did not publish."""
        sweep(self._log)


def sweep(log: TableLog) -> None:
    """Removes what no manifest lists, and what merged batches have replaced; the caller holds the lease."""
    storage, own = log.storage, set(log.own_batches())
    log.merged.sweep()
    replaced = [batch for batch in own if log.merged.of(batch) is not None]
    for batch in replaced:
        # Before its parts, which it lists.
        storage.delete(log.file(batch).path)
    own.difference_update(replaced)
    found: dict[int, list[str]] = {}
    for directory in storage.list("data"):
        found.setdefault(int(directory.partition("-")[0]), []).append(directory)
    for batch, directories in found.items():
        if len(directories) == 1 and batch in own:
            continue
        manifest = log.find(batch) if batch in own else None
        listed = {part.path.split("/")[1] for part in manifest.parts} if manifest else set()
        for directory in directories:
            if directory not in listed:
                storage.delete(f"data/{directory}", durable=False)
    storage.sweep()
