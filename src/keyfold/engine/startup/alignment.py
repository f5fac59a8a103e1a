"""Aligns views, sinks and readers with the state on disk, and records the plan of the start."""

from __future__ import annotations

from collections.abc import Mapping

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import bootstrap, definition, sink_positions
from keyfold.engine.recovery.query_failure import of_table
from keyfold.engine.recovery.view_rebuild import align
from keyfold.engine.sources import missing_files
from keyfold.engine.startup.compiled_app import CompiledApp
from keyfold.engine.startup.home import HeldHome
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.views.contract import ViewStore


def align_all(held: HeldHome, stored: StoredApp, app: CompiledApp, store: ViewStore) -> None:
    """Brings all that follows the state to where it is."""
    sink_positions.prepare(held.spec, stored, held.home)
    for table in app.tables:
        home = held.home.table(table.spec.name)
        with of_table(held.spec.name, table.spec.name, home):
            align(held.spark, store, table, held.home)
        _skip_missing_files(held, table, home)
    for stream in app.streams.values():
        _skip_missing_files(held, stream, held.home.stream_home(stream.spec.name))
    bootstrap.prepare(held.spark, app.shared, app.tables, held.home, store)


def record_plan(held: HeldHome, stored: StoredApp, app: CompiledApp, partitions: Mapping[str, int]) -> None:
    """Records what later starts compare themselves with."""
    now = definition.plan_of(app.shared, app.tables, partitions, app.streams)
    held.home.write_plan(stored.followed_by(now))


def _skip_missing_files(held: HeldHome, compiled: Compiled | CompiledStream, home: TableHome) -> None:
    if held.settings.missing_files == "skip":
        newest = TableLog(home.log_files).newest()
        # Followers may have seen the batches until then.
        published = -1 if newest is None else newest
        missing_files.skip(compiled.name, compiled.spec.site, compiled.files, home, published)
