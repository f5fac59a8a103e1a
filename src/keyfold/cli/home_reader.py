"""Reads an app's home: views, late rows, positions; on a local disk it needs no JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.storage.home_names import find, find_remote, home_of
from keyfold.errors import QueryError

if TYPE_CHECKING:
    from keyfold.engine.storage.contract import Storage
    from keyfold.engine.storage.layout import AppHome
    from keyfold.settings import Settings
    from keyfold.views.contract import ViewStore
    from keyfold.views.reader import TableReader


def is_elsewhere(home: str | None) -> bool:
    """Whether the home is not on a local disk, so that only Spark can open it."""
    address = home or os.environ.get("KEYFOLD_HOME") or ""
    return "://" in address and not address.startswith("file:")


@contextmanager
def opened(name: str, home: str | None) -> Iterator[tuple[ViewStore, TableReader]]:
    """The view store of an app and the reader of one of its tables."""
    from keyfold.views.reader import TableReader

    app_home, table = find(home_of(home), name)
    with app_home.views.open(read_only=True) as store:
        yield store, TableReader(store, table)


@contextmanager
def opened_app(name: str, home: str | None, *, any_files: bool = False) -> Iterator[tuple[AppHome, str]]:
    """The home of an app, with its logs and state, and the table or stream that a name means in it.

    A home that is not on a local disk is opened through Spark, which takes some seconds to start.
    `any_files`: also an app of which nothing is left but files of tables.
    """
    from keyfold.settings import load

    if not is_elsewhere(home):
        yield _on_disk(name, home_of(home), any_files)
        return
    settings = load(home=home)
    with remote_storage(settings) as storage:
        yield find_remote(storage, settings.local_directory, name)


def _on_disk(name: str, home: Path, any_files: bool) -> tuple[AppHome, str]:
    from keyfold.engine.storage.layout import AppHome

    try:
        return find(home, name)
    except QueryError:
        app, _, part = name.rpartition(".")
        if any_files and app and (home / app / "tables").is_dir():
            return AppHome(home.resolve() / app), part
        raise


@contextmanager
def remote_storage(settings: Settings) -> Iterator[Storage]:
    """A home that is not on a local disk, in a Spark of its own that ends with this command."""
    from keyfold.cli import output
    from keyfold.engine import session
    from keyfold.engine.jvm import process
    from keyfold.engine.recovery import remote_home
    from keyfold.engine.storage.remote import SparkStorage

    output.say(f"opening {settings.home} through Spark")
    # The cluster is for the app; its files can be read from here.
    own = settings.model_copy(update={"master": "local[1]"})
    with process.ending_java(), remote_home.explained(str(settings.home)):
        spark = session.own_session(own, alone=True)
        yield SparkStorage(session.kernel(spark), spark, str(settings.home))


@contextmanager
def late_table(name: str, home: str | None) -> Iterator[tuple[AppHome, str]]:
    """The app and the table that a name of late rows refers to."""
    from keyfold.engine.batch.late_replay import table_of

    with opened_app(name, home) as (app_home, part):
        yield (
            app_home,
            table_of(app_home.path.name, part, tables_and_streams(app_home), declared_streams(app_home)),
        )


def reached(home: AppHome, table: str) -> tuple[int | None, datetime | None]:
    """The last committed batch of a table and its watermark, from its view or from Spark's commit log."""
    from keyfold.views.types.epoch import from_micros

    table_home, position = home.table(table), None
    views = home.views
    if views.exists():
        with views.open(read_only=True) as store:
            position = store.position(table)
    committed = table_home.committed()
    if position and (committed is None or position.batch >= committed):
        return position.batch, position.watermark
    ms = None if committed is None else table_home.spark.watermark_ms(committed)
    watermark = None if ms is None else from_micros(ms * 1000, zoned=True)
    return committed, watermark if isinstance(watermark, datetime) else None


def tables_and_streams(home: AppHome) -> dict[str, set[str]]:
    """The tables that have run, each with the streams that it reads, in lower case."""
    tables = (home.read_plan() or {}).get("tables") or {}
    return {name: {stream.lower() for stream in entry.get("streams", ())} for name, entry in tables.items()}


def declared_streams(home: AppHome) -> list[str]:
    """The declared streams: one that no table reads has no rejected rows, but is a valid name."""
    declared = (home.read_plan() or {}).get("declared") or {}
    return [stream["name"] for stream in declared.get("streams", ())]


def view_facts(home: AppHome, table: str) -> dict[str, Any]:
    """The view of a table without status, such as one that the app no longer declares."""
    from keyfold.errors import QueryError

    try:
        with home.views.open(read_only=True) as store:
            position = store.position(table)
            return {"batch": position.batch if position else None, "keys": store.count(table)}
    except QueryError:
        return {}
