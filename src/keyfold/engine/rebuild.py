"""Rebuilds a table from rows that its streams have recorded, beside the old one.

It runs in a home of its own below the app's, with second names of the streams' logs; `keyfold migrate` then
puts it in the place of the old table.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import beside
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery.definition_changes import TableChange
from keyfold.engine.savepoint.capture import copy_files
from keyfold.engine.start import start
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    spark: SparkSession, spec: AppSpec, place: AppHome, compiled: Compiled, change: TableChange, feeds: Path
) -> dict[str, Any]:
    """Makes the table; returns what the switch has to know. `feeds`: a directory for empty inputs."""
    table = compiled.spec.name
    streams = tree.sources(compiled.spec.input)
    home = beside.home_of(place, table)
    below = str(home.path.relative_to(place.path))
    place.storage.delete(str(home.path.parent.relative_to(place.path)))
    for stream in streams:
        files = [file.name for file in place.storage.files(f"streams/{stream.name}")]
        copy_files(place.storage, files, f"streams/{stream.name}/", f"{below}/streams/{stream.name}/")
    home.write_plan({**(place.read_plan() or {}), "tables": {}})
    inputs = {one.name: feeds / one.name for one in streams if one.connector.kind in ("rows", "kafka")}
    for directory in inputs.values():
        directory.mkdir(parents=True, exist_ok=True)
    beside.run(start, spark, place, spec, compiled.spec, streams, feeds=inputs)
    assert change.rebuilt is not None
    began = KnownSince(datetime.fromisoformat(change.rebuilt), None).document()
    since = dict.fromkeys((name for name, _ in compiled.spec.columns), began)
    return beside.prepared(place, table, {"since": since})
