"""Replaces files that have an erased key by files without it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from keyfold.engine.erasure.receipts import DIRECTORY
from keyfold.engine.operations.files import flush_directories
from keyfold.engine.operations.kinds import FORGET
from keyfold.engine.savepoint.manifest import FILE as MANIFEST
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery.key_rows import key_filter
from keyfold.fault_points import FaultPoint, reached
from keyfold.views.contract import Views
from keyfold.views.query.filters import All


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


def erase_from_view(views: Views, table: str, key: Mapping[str, str], batch: int | None) -> None:
    """Erases the rows of a key from a view, which is at a batch then.

    None: no batch of the table was finished. What its first one has written is written again. A savepoint may
    have a batch of this number, in place of which this one is.
    """
    with views.open(read_only=False) as store:
        rows = key_filter(store.schema(table), key) if table in store.tables() else All(())
        store.erase(table, rows, batch)
