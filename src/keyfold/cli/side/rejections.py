"""The rejected rows of a table or stream, and how many more there were."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from keyfold.cli.home_reader import declared_streams, opened_app, tables_and_streams
from keyfold.errors import QueryError, choice, did_you_mean

if TYPE_CHECKING:
    from keyfold.engine.log.table_log import TableLog
    from keyfold.engine.storage.layout import AppHome


@dataclass(frozen=True)
class Rejections:
    """The rejected rows of a table, or of a stream: of all tables that read it, each once."""

    rows: list[dict[str, Any]]
    not_kept: Counter[str]
    """How many more there were by kind of reason, which were counted and not kept."""
    streams: list[str] = field(default_factory=list)
    """The streams of a table whose own logs have more, which are not among the table's."""


def rejected_rows(name: str, home: str | None) -> Rejections:
    """What a table or stream has rejected."""
    with opened_app(name, home) as (app_home, part):
        return replace(_rejected(app_home, part, name), streams=_streams_that_reject(app_home, part))


def _rejected(home: AppHome, part: str, name: str) -> Rejections:
    from keyfold.engine.log import side_outputs
    from keyfold.engine.log.table_log import TableLog

    tables = tables_and_streams(home)
    known = {known.lower(): known for known in tables}
    if part.lower() in known:
        return _of_log(TableLog(home.table(known[part.lower()]).log_files))
    readers = [table for table, streams in tables.items() if part.lower() in streams]
    if not readers and part.lower() not in {stream.lower() for stream in declared_streams(home)}:
        names = [*tables, *declared_streams(home)]
        hint = did_you_mean(part, names, choice(names))
        what = f"no stream or table {part} in app {home.path.name}"
        raise QueryError(what, reason="not_found", given=name, hint=hint)
    stream = next((name for name in declared_streams(home) if name.lower() == part.lower()), part)
    own = _of_log(TableLog(home.stream_home(stream).log_files))
    found = {table: _of_log(TableLog(home.table(table).log_files)) for table in readers}
    rows = side_outputs.of_stream(part, [own.rows, *(one.rows for one in found.values())])
    # It is not known which of several streams they were of, and several tables may reject the same row.
    alone = (one.not_kept for table, one in found.items() if len(tables[table]) == 1)
    return Rejections(rows, own.not_kept + reduce(or_, alone, Counter()))


def _of_log(log: TableLog) -> Rejections:
    from keyfold.engine.log import side_outputs

    rows = side_outputs.rejected(log)
    return Rejections(rows, side_outputs.not_kept(log, rows))


def _streams_that_reject(home: AppHome, part: str) -> list[str]:
    from keyfold.engine.log.retention import counted
    from keyfold.engine.log.table_log import TableLog

    tables = (home.read_plan() or {}).get("tables") or {}
    entry: dict[str, Any] = next((e for known, e in tables.items() if known.lower() == part.lower()), {})
    logs = {stream: TableLog(home.stream_home(stream).log_files) for stream in entry.get("shared", ())}
    return [f"{home.path.name}.{stream}" for stream, log in logs.items() if counted(log)["rejected"]]
