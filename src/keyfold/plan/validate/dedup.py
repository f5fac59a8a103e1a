"""Checks of `distinct`, which drops duplicates."""

from __future__ import annotations

from keyfold.errors import BadOption
from keyfold.plan import durations
from keyfold.plan.nodes import Distinct, Node
from keyfold.plan.validate import arguments, event_time, known_columns, retraction

_EXAMPLE = 'distinct("id", within="1 day")'


def distinct(
    node: Node, columns: tuple[object, ...], within: object, record_duplicates: object, where: object = None
) -> Distinct:
    """A stream without its duplicates."""
    if not columns:
        raise BadOption("distinct needs at least one column", where=where, hint=_EXAMPLE)
    names = known_columns.columns(columns, "distinct", where)
    if within is None:
        problem = "distinct needs within=: without a time bound its state would grow forever"
        raise BadOption(problem, where=where, hint=_EXAMPLE)
    within_ms = durations.millis(within, "within", where=where)
    recorded = arguments.flag(record_duplicates, "record_duplicates", where)
    retraction.refuse_distinct(node, where)
    event_time.refuse_delayed_rows(node, "distinct", where)
    known_columns.require_in_stream(names, node, "distinct", where)
    return Distinct(node, names, within_ms, recorded)
