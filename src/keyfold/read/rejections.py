"""The rejected rows of a table or stream, and how many more there were."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from keyfold.engine.log.retention import count_rows
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.read import side_outputs
from keyfold.read.names import Names, stored_names
from keyfold.read.side_rows import RejectedRow


@dataclass(frozen=True)
class Rejections:
    """The rejected rows of a table, or of a stream: of all tables that read it, each once."""

    rows: list[RejectedRow]
    not_kept: Counter[str]
    """How many more there were by kind of reason, which were counted and not kept."""
    streams: list[str] = field(default_factory=list)
    """The streams of a table whose own logs have more, which are not among the table's."""


def rows_of(home: AppHome, names: Names, name: str) -> list[RejectedRow]:
    """What a table or stream has rejected; without what is counted alone."""
    if (table := names.table(name)) is not None:
        return side_outputs.read_rejected(TableLog(home.table(table).log_files))
    stream = _stream(names, name, name)
    logs = [home.stream_home(stream), *(home.table(reader) for reader in names.readers(stream))]
    return side_outputs.of_stream(
        stream, [side_outputs.read_rejected(TableLog(log.log_files)) for log in logs]
    )


def of(home: AppHome, name: str, given: str) -> Rejections:
    """What a table or stream has rejected, by what the last start recorded; `given`: the name in errors."""
    stored = home.read_plan()
    names = stored_names(home.path.name, stored)
    if (table := names.table(name)) is not None:
        logs = {stream: TableLog(home.stream_home(stream).log_files) for stream in stored.table(table).shared}
        streams = [f"{names.app}.{stream}" for stream, log in logs.items() if count_rows(log)["rejected"]]
        return replace(_of_log(TableLog(home.table(table).log_files)), streams=streams)
    stream = _stream(names, name, given)
    own = _of_log(TableLog(home.stream_home(stream).log_files))
    found = {table: _of_log(TableLog(home.table(table).log_files)) for table in names.readers(stream)}
    rows = side_outputs.of_stream(stream, [own.rows, *(one.rows for one in found.values())])
    # It is not known which of several streams they were of, and several tables may reject the same row.
    alone = (one.not_kept for table, one in found.items() if len(names.tables[table]) == 1)
    return Rejections(rows, own.not_kept + reduce(or_, alone, Counter()))


def _stream(names: Names, name: str, given: str) -> str:
    stream = names.stream(name)
    if stream is None:
        raise names.unknown_error(name, given)
    return stream


def _of_log(log: TableLog) -> Rejections:
    rows = side_outputs.read_rejected(log)
    return Rejections(rows, side_outputs.not_kept(log, rows))
