"""Checks that a stream's source has the schema and times it needs, and that a sink can be written to."""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from keyfold.errors import BadOption
from keyfold.plan import ddl, durations
from keyfold.plan.nodes import Connector, TableSpec
from keyfold.plan.validate import arguments

RATE_SCHEMA: Final = "timestamp timestamp, value bigint"
FUTURE: Final = "1 day"
"""How far ahead of the clock event times may be, unless the stream says another bound."""
FUTURE_MS: Final = durations.millis(FUTURE)
# Formats that Spark streams only with a schema; others (delta, socket, kafka, text) bring their own.
_NEEDS_SCHEMA: Final = frozenset({"json", "csv", "parquet", "orc", "avro", "xml"})


def stream_schema(
    source: Connector, given: object, where: object = None
) -> tuple[dict[str, str], str | None]:
    """The columns that are known, and the schema as DDL or None if the source brings its own."""
    if source.kind == "rate":
        return _rate(given, where)
    if given is None:
        if source.kind != "spark" or source.format.lower() in _NEEDS_SCHEMA:
            kind = "rows" if source.kind == "rows" else f"{source.format} files"
            hint = "schema='id string, amount double, at timestamp'"
            raise BadOption(f"a stream of {kind} needs a schema", where=where, hint=hint)
        return {}, None
    columns = ddl.columns(given, where)
    return columns, str(given).strip()


class EventTime(NamedTuple):
    """A stream's column of event time, or None for arrival, and what is too late and too early."""

    column: str | None
    late_ms: int
    future_ms: int | None


def event_time(
    time: object, late: object, future: object, known: dict[str, str], where: object = None
) -> EventTime:
    """The column and its bounds. Without a column, bounds are refused unless they are the defaults."""
    column = None if time is None else ddl.time_column(time, known, where)
    late_ms = durations.millis(late, "late", zero=True, where=where)
    future_ms = None if future is None else durations.millis(future, "future", zero=True, where=where)
    if column is not None:
        return EventTime(column, late_ms, future_ms)
    if late_ms:
        _refuse_bound("late", late, "late", where)
    if future_ms not in (None, FUTURE_MS):
        _refuse_bound("future", future, "ahead of the clock", where)
    return EventTime(None, 0, None)


def checked_sink(sink: object, table: TableSpec, where: object = None) -> Connector:
    """The connector, if a table's changes can go there."""
    advice = 'kf.files("out", format="parquet") or kf.spark("format")'
    checked = arguments.instance(sink, Connector, "the sink of a table must be a sink", advice, where)
    if checked.kind in ("rate", "rows"):
        raise BadOption(f"kf.{checked.kind} is a source and can't be written to", where=where, hint=advice)
    if checked.kind == "files" and set(checked.path or "") & set("*?[{"):
        problem = "a sink needs the path of one directory, not a glob"
        raise BadOption(problem, where=where, given=repr(checked.path))
    if checked in table.sinks:
        raise BadOption("the table has that sink already", where=where, given=checked.path or checked.format)
    return checked


def _rate(given: object, where: object) -> tuple[dict[str, str], str]:
    own = ddl.columns(RATE_SCHEMA)
    if given is not None and ddl.columns(given, where) != own:
        hint = "leave schema out and rename with select: .select(at='timestamp')"
        problem = f"the schema of kf.rate is {RATE_SCHEMA}"
        raise BadOption(problem, where=where, given=f"schema={given!r}", hint=hint)
    return own, RATE_SCHEMA


def _refuse_bound(name: str, value: object, never: str, where: object) -> NoReturn:
    problem = f"{name} has no meaning without time: rows that count by their arrival are never {never}"
    raise BadOption(problem, where=where, given=f"{name}={value!r}", hint='time="<a timestamp column>"')
