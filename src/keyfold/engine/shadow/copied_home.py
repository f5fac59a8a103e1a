"""A home for a shadow run: the state it starts with, and the logs of its streams, received in steps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.log.totals import Totals
from keyfold.engine.migration import migrated_state, migrated_view
from keyfold.engine.operations.files import in_parallel
from keyfold.engine.recovery import definition
from keyfold.engine.shadow.beginning import Beginning, Positions
from keyfold.engine.state.table_rows import from_state
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.spark_checkpoint import new_metadata
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.kernel.api import LogApi
from keyfold.views.changes import as_changes
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CopiedHome:
    """The home of a shadow run, of one table; nothing in it is the app's own."""

    def __init__(self, source: AppHome, target: AppHome, begin: Beginning) -> None:
        self._source, self.home, self._begin = source, target, begin

    def prepare(
        self, spark: SparkSession, compiled: Compiled, stored: StoredApp, view: ViewStore | None
    ) -> None:
        """Copies what the run starts with. `view`: a copy of the app's own."""
        begin, table = self._begin, compiled.spec.name
        entries = {}
        if begin.state is not None:
            old = stored.tables[begin.change.was or table]
            entries = {table: definition.with_definition(old, compiled)}
            self._copy_checkpoint(spark, compiled, old, begin.state)
        self.home.write_plan(stored.with_tables(entries))
        for stream, after in begin.after.items():
            self._copy_stream(stream, after)
        if begin.state is not None:
            self._fill_view(spark, compiled, view, begin.state)

    def advance(self, kernel: LogApi, before: Positions, upto: Positions) -> None:
        """Publishes what the streams recorded after one position, up to another."""
        for stream, last in upto.items():
            source, target = (TableLog(p.stream_home(stream).log_files) for p in (self._source, self.home))
            for batch in (b for b in source.own_batches() if before[stream] < b <= last):
                manifest = source.find(batch)
                if manifest is None or source.merged.of(batch) is not None:
                    continue
                parts = [part.path for part in manifest.of_kind("change")]
                _copy(source.storage, target.storage, parts)
                target.storage.put(f"{batch}.json", manifest.encode(), durable=False)
            kernel.published(self.home.stream_home(stream).log_url, last)

    def _copy_stream(self, stream: str, after: int) -> None:
        source, target = (home.stream_home(stream).storage for home in (self._source, self.home))
        offsets = [f"checkpoint/offsets/{name}" for name in source.list("checkpoint/offsets")]
        merged = [f"log/merged/{file.name}" for file in source.files("log/merged")]
        _copy(source, target, [*offsets, *merged])
        Totals(after).record(target.below("log"))

    def _copy_checkpoint(self, spark: SparkSession, compiled: Compiled, old: StoredTable, batch: int) -> None:
        change = self._begin.change
        source = self._source.table(change.was or change.table)
        target = self.home.table(change.table)
        mapping = change.mapping if change.kind == "migratable" else None
        files = [f"checkpoint/{file.name}" for file in source.storage.files("checkpoint")]
        files += [
            f"{d}/{file.name}" for d in ("side", "control", "inputs") for file in source.storage.files(d)
        ]
        wanted = [name for name in files if _as_of(name, batch, state=mapping is None)]
        _copy(source.storage, target.storage, wanted)
        target.spark.metadata.put(new_metadata())
        target.spark.relocate()
        if mapping is not None:
            migrated_state.write_state(spark, compiled, old, mapping, source, target, batch)

    def _fill_view(self, spark: SparkSession, compiled: Compiled, view: ViewStore | None, batch: int) -> None:
        """The rows as of the batch that it starts with: those of the state, and those that it lacks."""
        home = self.home.table(compiled.spec.name)
        with self.home.views.open(read_only=False) as store:
            store.create(compiled.view)
            store.rebuild(
                compiled.spec.name,
                compiled.view,
                self._rows(spark, compiled, view, batch),
                batch,
                datetime.now(UTC),
                home.spark.watermark(batch),
            )

    def _rows(
        self, spark: SparkSession, compiled: Compiled, view: ViewStore | None, batch: int
    ) -> Iterator[pa.RecordBatch]:
        change = self._begin.change
        name = change.was or change.table
        if view is not None and name in view.tables() and not (change.mapping and change.mapping.merges):
            before = view.schema(name)
            known = {one.name for one in (*before.keys, *before.columns)}
            sources = migrated_view.sources_of(compiled, change.mapping, known)
            # A row that has not changed since was the same then.
            old = (row for row in view.scan(name) if row["_batch"] <= batch)
            yield from as_changes(({n: row[of] for n, of in sources.items()} for row in old), compiled.view)
        if compiled.rebuilt is not None:
            yield from from_state(spark, compiled, self.home.table(compiled.spec.name), batch)


def _as_of(name: str, batch: int, *, state: bool) -> bool:
    """Whether a file belongs to a checkpoint as of a batch, with or without the table's own state."""
    directory, _, rest = name.removeprefix("checkpoint/").partition("/")
    if directory in ("offsets", "commits"):
        return rest.isdecimal() and int(rest) <= batch
    if directory != "state":
        return directory != "metadata"
    version = name.rpartition("/")[2].partition("_")[0]
    in_time = not (version.isdecimal() and "_metadata" not in name) or int(version) <= batch + 1
    return in_time and (state or not name.startswith(f"checkpoint/{migrated_state.OWN}"))


def _copy(source: Storage, target: Storage, names: list[str]) -> None:
    there = {file.name for file in target.files()} if names else set()

    def sent(name: str) -> None:
        try:
            with source.fetch(name) as file:
                target.send(file, name)
        except FileNotFoundError:
            # A running app removes files that no retained batch needs.
            return

    in_parallel([name for name in names if name not in there], sent)
