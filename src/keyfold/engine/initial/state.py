"""Tables that start with the state of a table in a savepoint, and continue at the savepoint's position.

Both must have the same definition and source, so that the position is the boundary: rows before it are in the
state, rows after it are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import beside, session
from keyfold.engine.compile.table import compile_app
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.migration.prepared_table import PreparedTable
from keyfold.engine.operations.files import send_files
from keyfold.engine.recovery import remote_home
from keyfold.engine.recovery.definition import differences, meaning_of
from keyfold.engine.savepoint import verify
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW, Savepoints
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from keyfold.engine.storage.spark_checkpoint import new_metadata
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.errors import QueryError, SavepointUnusable, choice, did_you_mean
from keyfold.plan import tree
from keyfold.plan.describe.as_json import connector_dict
from keyfold.plan.describe.phrases import initial_words
from keyfold.plan.initial import InitialState
from keyfold.plan.nodes import Source, TableSpec
from keyfold.settings import load
from keyfold.views.stores import views_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy_state(
    spark: SparkSession,
    home: AppHome,
    shared: SharedStreams,
    table: TableSpec,
    initial: InitialState,
    read: Mapping[str, str | Path],
) -> PreparedTable:
    """Copies the state beside the home; returns what the switch needs.

    `read`: the directories that are read in place of streams' sources.
    """
    origin = _origin(spark, home, initial, table.app)
    with Savepoints(origin).reading(initial.savepoint) as savepoint:
        storage, name = Savepoints(origin).storage(savepoint.name), initial.table or table.name
        verify.require_usable(savepoint)
        _require_table(savepoint, name)
        plan = Savepoints(origin).plan(savepoint.name)
        old = plan.tables[name]
        _require_same_definition(spark, shared, table, old, read, savepoint)
        _require_same_source(shared, table, old, plan, savepoint)
        verify.require_whole(savepoint, storage, silent)
        target = beside.home_of(home, table.name)
        _copy(storage, savepoint, name, target, table.name)
        record = _record(savepoint, name, initial)
        # If the savepoint's table itself began with files, the stream's rows before its boundary stay
        # excluded.
        record["until"] = old.boundary
        batch = savepoint.tables[name].batch
        assert batch is not None
        entry = replace(old, shared=(), initial=record)
        made = PreparedTable(table.name, batch, entry, rebuilt=beside.directory(home, target, table.name))
        if savepoint.view is not None:
            with storage.fetch(VIEW) as file, views_in(file).open(read_only=True) as store:
                position = store.position(name) if name in store.tables() else None
                if position is not None:
                    view = beside.view_of(home, store, name, table.name)
                    made = replace(made, batch=position.batch, view=view)
        return made


def _origin(spark: SparkSession, home: AppHome, initial: InitialState, app: str) -> AppHome:
    """The app of the savepoint, in the table's home or in another one; only its files are read."""
    name, address = initial.app or app, initial.home
    if address is None and home.remote is not None:
        address = home.remote.uri().rpartition("/")[0]
    table_home = home.path.parent if address is None else load(home=address).home
    if isinstance(table_home, Path):
        return AppHome(table_home.resolve() / name)
    with remote_home.explain_errors(table_home):
        storage = SparkStorage(session.kernel(spark), spark, f"{table_home}/{name}")
    return AppHome(home.path.parent / name, storage)


def _record(savepoint: Savepoint, name: str, initial: InitialState) -> dict[str, Any]:
    saved = savepoint.tables[name]
    return {
        "declared": initial_words(initial),
        "at": datetime.now(UTC).isoformat(),
        "savepoint": savepoint.name,
        "of": f"{savepoint.app}.{name}",
        "batch": saved.batch,
        "offsets": list(saved.offsets),
        "watermark": saved.watermark,
        "state": None if saved.state is None else [asdict(one) for one in saved.state],
    }


def _require_table(savepoint: Savepoint, name: str) -> None:
    saved = savepoint.tables.get(name)
    if saved is None or saved.batch is None:
        known = [one for one, found in savepoint.tables.items() if found.batch is not None]
        raise QueryError(
            f"savepoint {savepoint.name} of {savepoint.app} has no state of {name}",
            reason="not_found",
            given=name,
            hint=did_you_mean(name, known, choice(known) if known else "it has no tables"),
        )


def _require_same_definition(
    spark: SparkSession,
    shared: SharedStreams,
    table: TableSpec,
    old: StoredTable,
    read: Mapping[str, str | Path],
    savepoint: Savepoint,
) -> None:
    compiled = next(one for one in compile_app(spark, shared.spec, read) if one.spec.name == table.name)
    lines = differences(old.meaning, meaning_of(compiled))
    if lines:
        raise SavepointUnusable(
            f"{table.app}.{table.name} can't begin with savepoint {savepoint.name} of {savepoint.app}, whose "
            "state another definition has written; nothing was changed",
            given="\n".join(line.replace(" on disk", " in the savepoint") for line in lines),
            hint="declare the table as it was in the savepoint, start it once, and then migrate it",
        )


def _require_same_source(
    shared: SharedStreams,
    table: TableSpec,
    old: StoredTable,
    plan: StoredApp,
    savepoint: Savepoint,
) -> None:
    """Refuses a table that could not continue where the savepoint's stopped."""
    stream = tree.sources(table.input)[0]
    why = _other_source(stream, plan)
    if why is None and stream.name in old.shared:
        why = f"its position is in the log of stream {stream.name} of {savepoint.app}"
    elif why is None and shared.of(table):
        why = f"stream {stream.name} has a log of its own here, but had none there"
    if why is not None:
        raise SavepointUnusable(
            f"{table.app}.{table.name} can't continue from savepoint {savepoint.name} of {savepoint.app}: "
            f"{why}; nothing was changed",
            given=initial_words(table.initial) if table.initial else "",
            hint="a table continues with the same stream, read directly (shared=False); to move an app with "
            "all of its streams: keyfold savepoint clone",
        )


def _other_source(stream: Source, plan: StoredApp) -> str | None:
    declared = plan.declared_streams.get(stream.name)
    if declared is None:
        return f"it has no stream {stream.name}"
    before, now = declared["source"], json.loads(json.dumps(connector_dict(stream.connector)))
    parts = sorted(part for part in {*before, *now} if before.get(part) != now.get(part) and part != "rows")
    if not parts:
        return None
    shown = ", ".join(f"{part} {before.get(part)} there and {now.get(part)} here" for part in parts)
    return f"stream {stream.name} has another source: {shown}"


def _copy(storage: Storage, savepoint: Savepoint, name: str, target: AppHome, table: str) -> None:
    """The files of a table except those of its sinks, whose positions belong to another table."""
    files = [
        file.path for file in savepoint.of_table(name) if not file.path.startswith(f"tables/{name}/sinks/")
    ]
    moved = {path: f"tables/{table}/{path.removeprefix(f'tables/{name}/')}" for path in files}
    send_files(storage.below(FILES), target.storage, moved)
    target.table(table).spark.metadata.put(new_metadata())
    target.table(table).spark.relocate()
