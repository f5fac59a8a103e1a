"""Checks that a stream has event time: every source of it must have one."""

from __future__ import annotations

from keyfold.errors import BadOption
from keyfold.plan.nodes import Changes, Enrich, Node, Source
from keyfold.plan.tree import walk


def source_without_event_time(node: Node) -> Source | Changes | None:
    """The first source or changelog of a stream that has no event time, if any.

    An enrichment also reads a table; only the time of the stream counts.
    """
    for each in walk(node):
        if isinstance(each, Changes) or (isinstance(each, Source) and each.time is None):
            return each
    return None


def require(node: Node, what: str, where: object = None) -> None:
    """Refuses a stream without event time; the error names the source and its line."""
    found = source_without_event_time(node)
    if isinstance(found, Changes):
        problem = f"{what} needs event time: changes of table {found.table!r} at {found.site} have none"
        raise BadOption(problem, where=where, hint=f"use the stream that feeds {found.table!r}")
    if found is not None:
        problem = f"{what} needs event time: stream {found.name!r} at {found.site} has none"
        raise BadOption(problem, where=where, hint='time="<a timestamp column>"')


def refuse_delayed_rows(node: Node, what: str, where: object = None) -> None:
    """Refuses rows that enrich(wait=...) buffers: the watermark has passed them, so they would be late."""
    for each in walk(node):
        if isinstance(each, Enrich) and each.wait_ms is not None:
            problem = (
                f"{what} is not supported after enrich(wait=...) at {each.site}: buffered rows would be late"
            )
            hint = "enrich without wait, or a table in between, whose changes() can be processed further"
            raise BadOption(problem, where=where, hint=hint)
