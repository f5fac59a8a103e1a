"""Replaces files that have an erased key by files without it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from keyfold.engine.erasure.receipts import DIRECTORY
from keyfold.engine.operations.files import flush_directories
from keyfold.engine.operations.kinds import FORGET
from keyfold.engine.savepoint.manifest import FILE as MANIFEST
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery.key_rows import rows_of_key
from keyfold.fault_points import FaultPoint, reached
from keyfold.views.query.filters import All
from keyfold.views.stores import open_store


def carry_out(home: AppHome, document: dict[str, Any]) -> dict[str, Any]:
    """Each prepared file is below its future name in the app's home."""
    storage = home.storage
    names = [file.name for file in storage.files(str(FORGET.prepared))]
    manifests = [name for name in names if name.endswith(f"/{MANIFEST}")]
    # A savepoint without a manifest does not exist, so a mixture of the old and the new one is never read.
    for name in manifests:
        storage.delete(name)
    for name in document["deleted"]:
        storage.delete(name)
    for some in ([name for name in names if name not in manifests], manifests):
        for name in some:
            storage.delete(name, durable=False)
            storage.copy(f"{FORGET.prepared}/{name}", name)
        flush_directories(storage, some)
    reached(FaultPoint.FORGET_SWITCHED)
    table = document["table"]
    home.table(table).spark.relocate()
    if document["batch"] is not None and home.views.exists():
        erase_from_view(home.views, table, document["key"], document["batch"])
    receipt = document["receipt"]
    storage.put(
        f"{DIRECTORY}/{receipt['id']}.json", json.dumps(receipt, ensure_ascii=False, indent=1).encode()
    )
    entry: dict[str, Any] = document["entry"]
    return entry


def erase_from_view(views: Path, table: str, key: Mapping[str, str], batch: int | None) -> None:
    """Deletes the rows of a key from a view at a given batch, and what SQLite has left of them.

    None: no batch of the table was finished. The output of its first batch is then written again.
    """
    with closing(open_store(views, read_only=False)) as store:
        position = store.position(table)
        if batch is None:
            store.drop(table)
        elif position is not None and position.batch <= batch:
            schema, found = store.schema(table), rows_of_key(store, table, key)
            changes = [_deletes(schema, found)] if found else []
            # In place of the batch that a savepoint may have under this number.
            store.rebuild(table, schema, changes, batch, position.at, position.watermark, keep=All(()))
    # A deleted row stays in free pages and in the write-ahead log until the file is rewritten.
    with closing(sqlite3.connect(views)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _deletes(schema: Any, rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    names = {column.name for column in schema.keys}
    changes = [
        {"_op": "delete", **{name: row[name] if name in names else None for name in schema.arrow.names[1:]}}
        for row in rows
    ]
    return pa.RecordBatch.from_pylist(changes, schema.arrow)
