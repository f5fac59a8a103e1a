"""Checks of a stream's source, schema and event time."""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from keyfold.errors import BadOption
from keyfold.plan import ddl, durations, formats
from keyfold.plan.nodes import Connector
from keyfold.plan.validate import kafka

RATE_SCHEMA: Final = "timestamp timestamp, value bigint"
FUTURE: Final = "1 day"
"""How far ahead of the clock event times may be by default."""
FUTURE_MS: Final = durations.millis(FUTURE)


def stream_schema(
    source: Connector, given: object, where: object = None
) -> tuple[dict[str, str], str | None]:
    """The columns, as far as they are known, and the schema as DDL; None if the source has its own."""
    if source.kind == "rate":
        return _rate(given, where)
    if source.kafka is not None:
        return kafka.stream_schema(source, source.kafka, given, where)
    if given is None:
        if source.kind != "spark" or formats.find_format(source.format).needs_schema:
            kind = "rows" if source.kind == "rows" else f"{source.format} files"
            hint = "schema='id string, amount double, at timestamp'"
            raise BadOption(f"a stream of {kind} needs a schema", where=where, hint=hint)
        return {}, None
    columns = ddl.columns(given, where)
    return columns, str(given).strip()


class EventTime(NamedTuple):
    """The event-time column, or None for arrival, and the bounds for late and future rows."""

    column: str | None
    late_ms: int
    future_ms: int | None


def event_time(
    time: object, late: object, future: object, known: dict[str, str], where: object = None
) -> EventTime:
    """The column and its bounds; without a column, bounds other than the defaults are refused."""
    if time == "kafka_timestamp" and known and time not in known:
        hint = "metadata=['timestamp'] of kf.kafka adds this column"
        raise BadOption("time must be a column of the schema", where=where, given=f"time={time!r}", hint=hint)
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


class Recording(NamedTuple):
    """How long the rows of a stream's own log stay readable, and whether it has one; None: undecided."""

    history_ms: int | None
    shared: bool | None


def recording(history: object, shared: object, where: object = None) -> Recording:
    """Whether the stream has a log; rows that stay readable need one."""
    if shared is not None and not isinstance(shared, bool):
        raise BadOption(
            "`shared` must be True, False or None",
            where=where,
            given=f"shared={shared!r}",
            hint="shared=True",
        )
    length = None if history is None else durations.millis(history, "history", where=where)
    if length is not None and shared is False:
        raise BadOption(
            "`history` needs the stream's own log, which shared=False leaves out",
            where=where,
            given=f"history={history!r}, shared=False",
            hint="leave out one of them",
        )
    return Recording(length, shared)


def _rate(given: object, where: object) -> tuple[dict[str, str], str]:
    own = ddl.columns(RATE_SCHEMA)
    if given is not None and ddl.columns(given, where) != own:
        hint = "leave schema out, and rename columns with select: .select(at='timestamp')"
        problem = f"kf.rate has its own schema: {RATE_SCHEMA}"
        raise BadOption(problem, where=where, given=f"schema={given!r}", hint=hint)
    return own, RATE_SCHEMA


def _refuse_bound(name: str, value: object, never: str, where: object) -> NoReturn:
    problem = f"`{name}` needs time=: without event time rows are never {never}"
    raise BadOption(problem, where=where, given=f"{name}={value!r}", hint='time="<a timestamp column>"')
