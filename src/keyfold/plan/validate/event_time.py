"""Which streams have an event time: those of which every source has one."""

from __future__ import annotations

from keyfold.errors import BadOption
from keyfold.plan.nodes import Changes, Enrich, Node, Source, walk


def timeless(node: Node) -> Source | Changes | None:
    """What a stream begins with and that has no event time, if there is such a thing.

    The step of an enrichment reads a table beside its stream; only the stream's time counts.
    """
    for each in walk(node):
        if isinstance(each, Changes) or (isinstance(each, Source) and each.time is None):
            return each
    return None


def require(node: Node, what: str, where: object = None) -> None:
    """Refuses a stream without event time, named with its line."""
    found = timeless(node)
    if isinstance(found, Changes):
        problem = f"{what} needs event time: changes of table {found.table!r}, at {found.site}, have none"
        raise BadOption(problem, where=where, hint=f"the stream that feeds {found.table!r} instead")
    if found is not None:
        problem = f"{what} needs event time: stream {found.name!r} at {found.site} has none"
        raise BadOption(problem, where=where, hint='time="<a timestamp column>"')


def refuse_waiting(node: Node, what: str, where: object = None) -> None:
    """Refuses rows that have waited: event time has passed them by, and they would all be late."""
    for each in walk(node):
        if isinstance(each, Enrich) and each.wait_ms is not None:
            problem = f"{what} can't follow enrich(wait=...), at {each.site}: its rows come late on purpose"
            hint = "enrich without wait, or a table in between: its changes can be folded on"
            raise BadOption(problem, where=where, hint=hint)
