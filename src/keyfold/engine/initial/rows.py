"""Tables that start with files: each runs alone on them until it has read them all, then reads its stream.

The position in the files is then discarded, and the stream is read from its start. Between the two is the
boundary, an event time: initial rows are before it, and rows of the stream before it are rejected, so that
none is folded twice. The content of the files is counted separately from the query that folds them, and
recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import beside
from keyfold.engine.log import readers
from keyfold.engine.log.retention import count_rows, totals
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration.prepared_table import PreparedTable
from keyfold.engine.sources import file_names, initial_files, reader
from keyfold.engine.sources.initial_files import FileFacts, moment
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, HomeUnusable
from keyfold.plan import tree
from keyfold.plan.describe.phrases import initial_words
from keyfold.plan.initial import InitialRows
from keyfold.plan.nodes import Source, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fold_files(
    spark: SparkSession,
    home: AppHome,
    shared: SharedStreams,
    table: TableSpec,
    initial: InitialRows,
    read: Mapping[str, str | Path],
) -> PreparedTable:
    """Folds the files beside the home; returns what the switch needs.

    `read`: the directories that are read in place of streams' sources.
    """
    stream = tree.sources(table.input)[0]
    files = initial_files.source_of(spark, stream, reader.open_stream(spark, stream, read), initial)
    facts = initial_files.facts(spark, files)
    if stream.name not in read:
        initial_files.refuse_overlap(spark, stream, facts.files)
    alone = replace(table, input=tree.with_source(table.input, files), initial=None)
    table_home = beside.home_of(home, table.name)
    with beside.hold(spark, table_home, shared.spec, [alone], [files]) as held:
        beside.read_all(held)
    record = _record(spark, home, table, initial, files, facts)
    _go_on_with_stream(home, table, shared)
    entry = table_home.read_plan().tables[table.name]
    entry = replace(entry, directories={}, shared=tuple(shared.of(table)), initial=record)
    return beside.prepare(home, table_home, table.name, entry)


def _record(
    spark: SparkSession,
    home: AppHome,
    table: TableSpec,
    initial: InitialRows,
    files: Source,
    facts: FileFacts,
) -> dict[str, Any]:
    """The record of the initial rows; refuses them if they are not those that the query has read."""
    table_home, name = beside.home_of(home, table.name).table(table.name), f"{home.path.name}.{table.name}"
    read = sorted(
        (f.size, f.time) for _, f in file_names.read_files(table_home.spark) if f.stream == files.name
    )
    now = initial_files.list_files(spark, files.connector)
    if now != facts.files or read != sorted((size, modified) for _, size, modified in now):
        raise HomeUnusable(
            f"the initial files of {name} changed while they were read; nothing was changed",
            given=f"{len(facts.files)} files at first, {len(read)} read, then {len(now)}",
            hint="start the app again once nothing is written to them",
        )
    counts = count_rows(TableLog(table_home.log_files))
    if counts["rejected"] and counts["rejected"] >= facts.rows:
        reason = next(
            (one.example for m in TableLog(table_home.log_files).after(-1) for one in m.reasons), ""
        )
        raise BadOption(
            f"none of the initial rows of {name} could be used; nothing was changed",
            where=table.site,
            given=f"{counts['rejected']:,} rows or files were rejected, such as: {reason}",
            hint="files with the stream's columns, in the format that initial= names",
        )
    boundary = None
    if initial.until is not None:
        boundary = initial.until.isoformat()
    elif facts.last is not None:
        boundary = moment(facts.last + 1)
    return {
        "declared": initial_words(initial),
        "at": datetime.now(UTC).isoformat(),
        "until": boundary,
        "files": len(facts.files),
        "rows": facts.rows,
        "left_out": facts.left_out,
        "rejected": counts["rejected"],
        "late": counts["late"],
        "first": moment(facts.first),
        "last": moment(facts.last),
        "checksum": facts.checksum,
        "batch": table_home.committed_batch(),
    }


def _go_on_with_stream(home: AppHome, table: TableSpec, shared: SharedStreams) -> None:
    """Makes a table that has read files start with its stream; sinks start with its first change."""
    table_home = beside.home_of(home, table.name).table(table.name)
    table_home.spark.forget_sources()
    for use in shared.uses(table):
        readers.begin_after(use, table_home, totals(TableLog(use.upstream(home).log_files)).upto)
    for name, _ in table.sinks:
        table_home.sink(name).put(json.dumps({"batch": -1}).encode())
