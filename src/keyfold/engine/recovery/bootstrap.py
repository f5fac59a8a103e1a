"""Prepares tables that read the logs of other tables and of streams, before the queries start.

A table that reads another for the first time begins with a snapshot of all its rows, as changes of the newest
published batch, and reads the log after that batch. The log of a stream is read from its oldest batch. A
table is refused if it has missed changes, or has read changes that the other table no longer has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.internal_columns import PREVIOUS
from keyfold.engine.log import readers
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.readers import Use
from keyfold.engine.log.retention import totals
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import reader_snapshot
from keyfold.engine.session import kernel
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import StateMismatch
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("keyfold")


def prepare(
    spark: SparkSession, shared: SharedStreams, compiled: Sequence[Compiled], home: AppHome, store: ViewStore
) -> None:
    """Checks all readers, and writes snapshots for new ones; nothing is written unless all can start."""
    tables = {one.spec.name: one for one in compiled}
    for use in (use for one in compiled for use in _uses(one, shared)):
        if home.table(use.reader).planned_batch() is not None:
            _check(shared.spec.name, use, home)
    # What another run in this JVM has published may have been replaced since.
    for stream in shared:
        kernel(spark).forgetPublished(home.stream_home(stream.name).log_url)
    for one in compiled:
        _withdraw(home.table(one.spec.name))
        _record(spark, one, _uses(one, shared), home)
        for use in _uses(one, shared):
            if home.table(use.reader).planned_batch() is not None:
                continue
            if use.stream:
                _begin(shared.spec.name, use, home)
            else:
                reader_snapshot.write(spark, tables[use.table], use, home, store)
        kernel(spark).forgetPublished(home.table(one.spec.name).log_url)


def _uses(compiled: Compiled, shared: SharedStreams) -> list[Use]:
    return readers.uses(compiled.spec) + shared.uses(compiled.spec)


def _begin(app: str, use: Use, home: AppHome) -> None:
    """Starts a table on a stream's log from its oldest batch, which may not be the stream's first."""
    upto = totals(TableLog(use.upstream(home).log_files)).upto
    readers.begin_after(use, home.table(use.reader), upto)
    if upto >= 0:
        _LOG.warning(
            "%s.%s begins with the rows of stream %s that are still recorded: those after batch %d",
            app,
            use.reader,
            use.table,
            upto,
        )


def _withdraw(home: TableHome) -> None:
    """Removes the manifest of an unfinished batch whose changes were only counted.

    The batch has not been read, but from now on it may be: it runs again, and publishes its changes.
    """
    committed, log = home.committed_batch(), TableLog(home.log_files)
    for manifest in log.after(-1 if committed is None else committed):
        if not manifest.has_its_changes:
            log.file(manifest.batch).delete()


def _record(spark: SparkSession, compiled: Compiled, found: list[Use], home: AppHome) -> None:
    """Records where the offset log of a table's query has the offsets of the logs it reads."""
    positions = list(kernel(spark).logUses(compiled.changes._jdf)) if found else []
    for use in found:
        mine = [at for at, number in enumerate(positions) if number == use.number]
        readers.record(use, home.table(use.reader), mine)


def _check(app: str, use: Use, home: AppHome) -> None:
    table_home, table = use.upstream(home), f"{app}.{use.reader}"
    begun = -1 if (found := table_home.planned_batch()) is None else found
    planned, read = readers.planned_upto(home, use), readers.read_upto(home, use)
    from_where = "the first row" if use.stream else f"the rows that {use.table} has now"
    reset = f"`keyfold reset {table}`, after which it starts from {from_where}"
    rows = f"rows of stream {use.table}" if use.stream else f"changes of {use.table}"
    if planned > begun:
        raise StateMismatch(
            f"{table} has read {rows} up to batch {planned}, whose checkpoint is at {begun}; "
            "nothing was changed",
            given=f"{table_home.shown}/checkpoint",
            hint=f"restore the checkpoint of {use.table}; or {reset}",
        )
    log = TableLog(table_home.log_files)
    missed = _first_missing(log, use, read)
    if missed is not None:
        raise StateMismatch(
            f"{table} was not part of the app for some time, and has missed {rows}; nothing was changed",
            given=f"{rows} up to batch {read} of {log.newest()}; those of batch {missed} are gone",
            hint=reset,
        )


def _first_missing(log: TableLog, use: Use, read: int) -> int | None:
    """The first batch after a given one that the log no longer has in a form that the reader can use."""
    if totals(log).upto > read:
        return read + 1
    return next((m.batch for m in log.after(read) if not _usable(log, use, m)), None)


def _usable(log: TableLog, use: Use, manifest: Manifest) -> bool:
    """Whether a batch has its changes and, where the reader needs it, the row before each.

    While no table reads a log, changes may only be counted, and rows before changes are left out.
    """
    if not manifest.has_its_changes:
        return False
    parts = manifest.of_kind("change")
    return not (use.previous and parts) or PREVIOUS in log.schema(parts[0]).names
