"""Reads an app's home: views, rejected and late rows, positions; needs neither the app's file nor a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.errors import HomeUnusable, QueryError, did_you_mean

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome
    from keyfold.views.contract import ViewStore
    from keyfold.views.reader import TableReader


def home_of(given: str | None) -> Path:
    """The home: the argument, else the environment, else the default. Reading needs no other setting."""
    text = given or os.environ.get("KEYFOLD_HOME") or ".keyfold"
    if "://" in text:
        from keyfold.settings import load

        return load(home=text).home
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise HomeUnusable(
            f"the home {text} is not a directory", given=text, hint="--home DIR, or KEYFOLD_HOME"
        )
    return path


@contextmanager
def opened(name: str, home: str | None) -> Iterator[tuple[ViewStore, TableReader]]:
    """The view store of an app and the reader of one of its tables."""
    from keyfold.engine.storage.layout import find
    from keyfold.views.reader import TableReader
    from keyfold.views.stores import open_store

    place, table = find(home_of(home), name)
    store = open_store(place.views, read_only=True)
    try:
        yield store, TableReader(store, table)
    finally:
        store.close()


def rejected_rows(name: str, home: str | None) -> list[dict[str, Any]]:
    """The rejected rows of a table, or of a stream: of all tables that read it, each once."""
    from keyfold.engine.log import side_outputs
    from keyfold.engine.log.table_log import TableLog
    from keyfold.engine.storage.layout import find

    place, part = find(home_of(home), name)
    tables = _tables_and_streams(place)
    known = {known.lower(): known for known in tables}
    if part.lower() in known:
        return side_outputs.rejected(TableLog(place.table(known[part.lower()]).log_files))
    readers = [table for table, streams in tables.items() if part.lower() in streams]
    if not readers and part.lower() not in {stream.lower() for stream in _streams(place)}:
        names = [*tables, *_streams(place)]
        hint = did_you_mean(part, names, f"one of {', '.join(names)}")
        what = f"no stream or table {part} in app {place.path.name}"
        raise QueryError(what, reason="not_found", given=name, hint=hint)
    found = [side_outputs.rejected(TableLog(place.table(table).log_files)) for table in readers]
    return side_outputs.of_stream(part, found)


def late_table(name: str, home: str | None) -> tuple[AppHome, str]:
    """The app and the table that a name of late rows refers to."""
    from keyfold.engine.batch.late_replay import table_of
    from keyfold.engine.storage.layout import find

    place, part = find(home_of(home), name)
    return place, table_of(place.path.name, part, _tables_and_streams(place), _streams(place))


def reached(place: AppHome, table: str) -> tuple[int | None, datetime | None]:
    """The last committed batch of a table and its watermark, from its view or from Spark's commit log."""
    from keyfold.views.stores import open_store
    from keyfold.views.types.epoch import from_micros

    home, position = place.table(table), None
    if place.views.exists():
        store = open_store(place.views, read_only=True)
        try:
            position = store.position(table)
        finally:
            store.close()
    committed = home.committed()
    if position and (committed is None or position.batch >= committed):
        return position.batch, position.watermark
    ms = None if committed is None else home.spark.watermark_ms(committed)
    watermark = None if ms is None else from_micros(ms * 1000, zoned=True)
    return committed, watermark if isinstance(watermark, datetime) else None


def _tables_and_streams(place: AppHome) -> dict[str, set[str]]:
    tables = (place.read_plan() or {}).get("tables") or {}
    return {name: {stream.lower() for stream in entry.get("streams", ())} for name, entry in tables.items()}


def _streams(place: AppHome) -> list[str]:
    """The declared streams: one that no table reads has no rejected rows, but is a valid name."""
    declared = (place.read_plan() or {}).get("declared") or {}
    return [stream["name"] for stream in declared.get("streams", ())]
