"""Rebuilds a table under a changed definition from rows that its streams have recorded, beside the old one.

It runs in a home of its own below the app's, with second names of the streams' logs; `keyfold migrate` then
puts it in the place of the old table.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery.definition_changes import TableChange
from keyfold.engine.savepoint import migrating
from keyfold.engine.savepoint.capture import copy_files
from keyfold.engine.start import start
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec
from keyfold.views.changes import as_changes
from keyfold.views.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _home(table: str) -> str:
    return f"{migrating.WORK}/{table}-rebuilt"


def rebuild(
    spark: SparkSession, spec: AppSpec, place: AppHome, compiled: Compiled, change: TableChange, feeds: Path
) -> dict[str, Any]:
    """Makes the table; returns what the switch has to know. `feeds`: a directory for empty inputs."""
    table, app = compiled.spec.name, place.path.name
    home = _home(table)
    streams = tree.sources(compiled.spec.input)
    place.storage.delete(home)
    for stream in streams:
        files = [file.name for file in place.storage.files(f"streams/{stream.name}")]
        copy_files(place.storage, files, f"streams/{stream.name}/", f"{home}/{app}/streams/{stream.name}/")
    beside = AppHome(place.path / home / app)
    beside.write_plan({**(place.read_plan() or {}), "tables": {}})
    # Its sinks go on when it is in place.
    alone = replace(compiled.spec, sinks=(), history_topic=None)
    inputs = {one.name: feeds / one.name for one in streams if one.connector.kind in ("rows", "kafka")}
    for directory in inputs.values():
        directory.mkdir(parents=True, exist_ok=True)
    handle = start(
        replace(spec, tables=(alone,), streams=tuple(streams)),
        spark=spark,
        home=place.path / home,
        feeds=inputs,
        recorded=True,
    )
    with handle:
        handle.queries[table].processAllAvailable()
        for follower in handle.followers:
            follower.wait_for(handle.hooks[table].last or 0)
    return _prepared(place, beside, compiled, change)


def _prepared(place: AppHome, beside: AppHome, compiled: Compiled, change: TableChange) -> dict[str, Any]:
    table = compiled.spec.name
    with closing(open_store(beside.views, read_only=True)) as store:
        schema, position = store.schema(table), store.position(table)
        assert position is not None
        with tempfile.TemporaryDirectory(prefix="keyfold-migrate-") as directory:
            path = Path(directory) / migrating.VIEW
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema.arrow) as out:
                for rows in as_changes(store.scan(table), schema):
                    out.write_batch(rows)
            place.storage.send(path, f"{migrating.WORK}/{table}/{migrating.VIEW}")
        keys = store.count(table)
    entry = (beside.read_plan() or {})["tables"][table]
    assert change.rebuilt is not None
    began = KnownSince(datetime.fromisoformat(change.rebuilt), None).document()
    since = dict.fromkeys((name for name, _ in compiled.spec.columns), began)
    watermark = None if position.watermark is None else position.watermark.isoformat()
    return {
        "table": table,
        "was": None,
        "rebuilt": f"{_home(table)}/{place.path.name}/tables/{table}",
        "batch": position.batch,
        "keys": keys,
        "view": {"schema": schema.to_json(), "at": position.at.isoformat(), "watermark": watermark},
        "entry": {**entry, "since": since},
    }
