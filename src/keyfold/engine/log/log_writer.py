"""Publishes a table's batches: tasks write the parts, then the manifest appears."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from keyfold.engine.log import partition_times, prepared
from keyfold.engine.log.manifest import Manifest, Part, Reason, part_of
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import HomeLocked
from keyfold.fault_points import FaultPoint, reached
from keyfold.kernel.api import LogApi, PartitionClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LogWriter:
    """Writes one table's log while this process holds the lease."""

    def __init__(self, kernel: LogApi, log: TableLog, table: str, lease: Lease) -> None:
        self._kernel, self._log, self._table, self._lease = kernel, log, table, lease
        self._parts = kernel.logWriter()
        self.newest = log.newest()
        """The newest published batch."""

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
        """Runs a batch and publishes its rows.

        `changes`: whether they have a reader; otherwise they are only counted. `skipped`: rejected rows that
        stand for missing input files. `clocks`: the kernel's clocks of the partitions of topics, by stream.
        """
        name = f"data/{batch}-{secrets.token_hex(4)}"
        written = json.loads(
            self._kernel.writeLog(self._parts, frame._jdf, self._log.storage.uri(name), changes)
        )
        missing = [self._skipped_part(name, skipped)] if skipped else []
        written["counts"]["rejected"] += len(skipped)
        reached(FaultPoint.PARTS_WRITTEN, table=self._table, batch=batch)
        # A process that was suspended while tasks ran, and has lost the lease, publishes nothing.
        self._lease.check()
        manifest = self._manifest(name, batch, written, clocks)
        manifest = replace(
            manifest,
            watermark=watermark,
            parts=(*manifest.parts, *missing),
            offsets=tuple(offsets),
            previous=self.newest,
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
        prepared.prepare(self._log, self._manifest(name, batch, written, clocks))

    def _manifest(
        self, name: str, batch: int, written: Mapping[str, Any], clocks: Mapping[str, PartitionClock] | None
    ) -> Manifest:
        """The manifest of what tasks have written below `name`."""
        return Manifest(
            batch=batch,
            epoch=self._lease.epoch,
            at=datetime.now(UTC),
            watermark=None,
            counts=written["counts"],
            parts=tuple(Part(**{**part, "path": f"{name}/{part['path']}"}) for part in written["parts"]),
            reasons=tuple(Reason(**reason) for reason in written["reasons"]),
            times=partition_times.newest(clocks or {}),
        )

    def settle(self, home: TableHome) -> Manifest | None:
        """Publishes the prepared batch if Spark has committed it."""
        self._lease.check()
        manifest = prepared.settle(home, self._table)
        if manifest is not None:
            self.newest = manifest.batch
        return manifest

    def run_again(self, frame: DataFrame) -> None:
        """Runs a published batch for its state alone: it publishes nothing."""
        self._kernel.writeLog(self._parts, frame._jdf, None, False)

    def _skipped_part(self, directory: str, rows: Sequence[Mapping[str, Any]]) -> Part:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([(name, pa.string()) for name in ("kind", "reason", "raw", "stream")])
        out = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([{"kind": "rejected", **row} for row in rows], schema), out)
        name, content = f"{directory}/part-rejected-skipped.parquet", out.getvalue().to_pybytes()
        self._log.storage.put(name, content)
        return part_of(name, "rejected", len(rows), content)

    def sweep(self) -> None:
        """Removes unpublished parts that a killed process left."""
        sweep(self._log)


def sweep(log: TableLog) -> None:
    """Removes unlisted parts, and files replaced by merged batches; the caller holds the lease."""
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
