"""Checks of `initial`: the content of a table before the rows of its stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from keyfold.errors import BadOption
from keyfold.plan.initial import Initial, InitialRows, InitialState
from keyfold.plan.nodes import Connector, TableSpec
from keyfold.plan.tree import reads, sources
from keyfold.plan.validate import arguments, tombstones
from keyfold.plan.validate.table_options import refuse_aggregate

_HINT: Final = 'kf.files("archive/*.parquet", format="parquet"), or kf.savepoint("name", app="old")'


def initial_option(value: object, where: object = None) -> Initial | None:
    """The option, if it is one."""
    refuse_aggregate(value, "initial", where)
    if value is None or isinstance(value, InitialRows | InitialState):
        return value
    advice = "initial takes files or a savepoint"
    return initial_rows(arguments.instance(value, Connector, advice, _HINT, where), None, where)


def initial_rows(source: Connector, until: object, where: object = None) -> InitialRows:
    """Files, and the boundary up to which their rows count."""
    if source.kind != "files":
        raise BadOption(
            "initial rows are those of files: a source that never ends has no last row",
            where=where,
            given=f"kf.{source.kind}(...)",
            hint=_HINT,
        )
    return InitialRows(source, None if until is None else _moment(until, where))


def _moment(value: object, where: object) -> datetime:
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = None
    if not isinstance(found, datetime) or found.tzinfo is None:
        raise BadOption(
            "until must be a time with its offset from UTC",
            where=where,
            given=f"until={value!r}",
            hint='until="2026-01-01T00:00:00Z"',
        )
    return found.astimezone(UTC)


def check_initial(spec: TableSpec, where: object = None) -> None:
    """Refuses a table that can't have initial rows."""
    if spec.initial is None:
        return
    found = sources(spec.input)
    tables = list(dict.fromkeys(node.table for node in reads(spec.input)))
    if tables:
        _refuse(f"it reads the table {', '.join(tables)}, whose rows of that time are not known", spec, where)
    if len(found) != 1:
        names = ", ".join(source.name for source in found)
        _refuse(f"it reads several streams ({names}), and the files are those of one", spec, where)
    if tombstones.deletes(found[0]):
        _refuse(f"messages of stream {found[0].name} delete rows, which rows of files can't", spec, where)
    if spec.latency is not None:
        _refuse("latency='realtime' reads a topic alone; add latency once the table has begun", spec, where)
    if isinstance(spec.initial, InitialRows) and spec.initial.until is not None and found[0].time is None:
        raise BadOption(
            f"until needs event time, and stream {found[0].name} has none",
            where=where,
            given=f"until={spec.initial.until.isoformat()}",
            hint="time= of the stream; or leave until out: the files are then all that was before the stream",
        )


def _refuse(why: str, spec: TableSpec, where: object) -> None:
    raise BadOption(
        f"a table can't have initial= here: {why}", where=where, given=spec.name, hint="leave initial out"
    )
