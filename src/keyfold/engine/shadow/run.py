"""Runs recorded batches of a table under changed code, in a home of its own, and compares the rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.manifest import Manifest, Reason
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.definition_changes import TableChange
from keyfold.engine.session import kernel
from keyfold.engine.shadow.beginning import Beginning, beginning
from keyfold.engine.shadow.copied_home import CopiedHome
from keyfold.engine.shadow.difference import Differences, differences
from keyfold.engine.start import start
from keyfold.engine.startup.options import StartOptions
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import BadOption
from keyfold.plan import tree
from keyfold.views.contract import ViewStore
from keyfold.views.stores import COPY, LOCAL, views_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]
"""Receives the number of finished steps, and of all steps."""


@dataclass(frozen=True)
class SideOutputs:
    """The number of rows not folded and partial matches dropped, before and now, and the reasons now."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Shadow:
    """A table's shadow run."""

    table: str
    begin: Beginning
    rows: Differences
    side_outputs: SideOutputs


def shadow(
    spark: SparkSession,
    shared: SharedStreams,
    home: AppHome,
    stored: StoredApp,
    compiled: Compiled,
    change: TableChange,
    number: int,
    directory: Path,
    limit: int,
    progress: Progress,
) -> Shadow:
    """Runs the last `number` recorded batches of a table. `directory`: an empty one, for all files."""
    table, old = compiled.spec.name, change.was or change.table
    with _copy_of_views(home, old) as (view, at):
        begin = beginning(shared, home, stored, compiled, change, at, number)
        copied = CopiedHome(home, local_app_home(directory, shared.spec.name), begin)
        copied.prepare(spark, compiled, stored, view)
        _run(spark, shared, compiled, copied, begin, directory / "feeds", progress)
        with copied.home.views.open(read_only=True) as after:
            first = -1 if begin.state is None else begin.state
            rows = differences(view, old, after, table, (begin.unchanged, first), limit)
    return Shadow(table, begin, rows, _side_outputs(home, copied.home, old, table, begin, at))


@contextmanager
def _copy_of_views(home: AppHome, table: str) -> Iterator[tuple[ViewStore | None, int | None]]:
    """The app's views as of one moment, and the batch at which that of the table is."""
    views = home.views
    if not views.exists():
        if home.table(table).committed_batch() is not None:
            raise BadOption(
                f"the view of {home.path.name}.{table} is not there, so no rows can be compared",
                given=views,
                hint="start the app with views, which builds it",
            )
        yield None, None
        return
    with tempfile.TemporaryDirectory(prefix="keyfold-shadow-") as directory:
        path = Path(directory) / COPY
        with views.open(read_only=True) as store:
            store.copy_to(path)
        with views_in(path).open(read_only=True) as copy:
            position = copy.position(table) if table in copy.tables() else None
            yield copy, None if position is None else position.batch


def _run(
    spark: SparkSession,
    shared: SharedStreams,
    compiled: Compiled,
    copied: CopiedHome,
    begin: Beginning,
    feeds: Path,
    progress: Progress,
) -> None:
    streams = tree.queried_sources(shared.spec, compiled.spec)
    inputs = {one.name: feeds / one.name for one in streams if one.connector.kind in ("rows", "kafka")}
    for one in inputs.values():
        one.mkdir(parents=True, exist_ok=True)
    alone = replace(compiled.spec, sinks=(), history_topic=None, partitions=None, was=None, initial=None)
    spec = replace(shared.spec, tables=(alone,), streams=tuple(streams))
    api, read = kernel(spark), begin.after
    with start(
        spec,
        spark=spark,
        home=copied.home.path.parent,
        settings={"views": LOCAL, "local": None},
        options=StartOptions(feeds=inputs, recorded=True),
    ) as handle:
        for done, upto in enumerate(begin.steps, 1):
            copied.advance(api, read, upto)
            handle.drain()
            read = upto
            progress(done, len(begin.steps))


def _side_outputs(
    home: AppHome, copied: AppHome, old: str, table: str, begin: Beginning, at: int | None
) -> SideOutputs:
    log = TableLog(home.table(old).log_files)
    first = begin.unchanged
    before = [m for b in log.batches() if first < b <= (-1 if at is None else at) and (m := log.find(b))]
    made = TableLog(copied.table(table).log_files)
    after = [m for b in made.batches() if (m := made.find(b))]
    return SideOutputs(_counts(before), _counts(after), tuple(_reasons(after)))


def _counts(manifests: list[Manifest]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for manifest in manifests:
        sums.update(manifest.counts)
    return {kind: sums[kind] for kind in ("rejected", "late", "duplicate", "dropped_partial")}


def _reasons(manifests: list[Manifest]) -> Iterator[Reason]:
    """The reasons of all batches by kind, the most frequent first."""
    found: dict[str, Reason] = {}
    for one in (reason for manifest in manifests for reason in manifest.reasons):
        known = found.get(one.kind)
        found[one.kind] = one if known is None else replace(known, rows=known.rows + one.rows)
    yield from sorted(found.values(), key=lambda reason: -reason.rows)
