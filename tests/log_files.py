"""Writes logs as the kernel and the log's writer do, for tests that start no JVM."""

from __future__ import annotations

import json
import shutil
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from keyfold.engine.log.manifest import KINDS, LAYOUT, Kind, Manifest, Part
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog

WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])
SIDE = pa.schema(
    [(name, pa.string()) for name in ("kind", "reason", "raw", "stream", "cause", "file")]
    + [(name, pa.int64()) for name in ("line", "byte", "event_time", "watermark", "missed", "last_end")]
    + [("windows", pa.list_(WINDOW)), ("step", pa.string()), ("count", pa.int64())]
)


def publish(
    log: TableLog,
    batch: int,
    rows: Mapping[Kind, Sequence[Mapping[str, Any]]] | None = None,
    *,
    schema: pa.Schema | None = None,
    at: datetime | None = None,
    counts: Mapping[str, int] | None = None,
    previous: int | None = None,
    offsets: Sequence[Any] = (),
) -> Manifest:
    """Publishes a batch; `schema` is that of changes, `previous` the batch before that it names.

    `offsets`: those of its sources, as Spark's offset log has them.
    """
    parts = []
    for kind, some in (rows or {}).items():
        if some:
            name, out = f"data/{batch}-test/part-{kind}.parquet", pa.BufferOutputStream()
            pq.write_table(pa.Table.from_pylist(list(some), schema if kind == "change" else SIDE), out)
            content = out.getvalue().to_pybytes()
            log.storage.put(name, content)
            parts.append(Part(name, kind, len(some), len(content), f"crc32:{zlib.crc32(content):08x}"))
    counted = {kind: len((rows or {}).get(kind, ())) for kind in KINDS} | dict(counts or {})
    at = at or datetime.now(UTC)
    found = Manifest(batch, 1, at, None, counted, tuple(parts), offsets=tuple(offsets), previous=previous)
    log.file(batch).put(found.encode())
    return found


def empty_logs(app: Path) -> None:
    """Leaves the logs of an app as retention does when everybody has read all changes, side outputs too.

    `drive` keeps every batch, so that a test can read its changes. Batches after the last change stay.
    """
    for directory in app.glob("tables/*/log"):
        log = TableLog(directory)
        last = max((m.batch for m in log.after(-1) if m.counts["change"]), default=-1)
        gone = [manifest for manifest in log.after(-1) if manifest.batch <= last]
        if not gone:
            continue
        for manifest in gone:
            log.file(manifest.batch).delete()
            for parts in (directory / "data").glob(f"{manifest.batch}-*"):
                shutil.rmtree(parts)
        counts = sum((Counter(m.counts) for m in gone), Counter(totals(log).counts))
        document = {"layout": LAYOUT, "upto": gone[-1].batch, "counts": counts}
        (directory / "totals.json").write_text(json.dumps(document))
