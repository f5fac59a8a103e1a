"""Refuses what is not supported on a retracting stream, with the reason and an alternative."""

from __future__ import annotations

from keyfold.errors import BadOption
from keyfold.plan.nodes import Changes, Enrich, Expr, FoldSpec, Node, WindowSpec
from keyfold.plan.tree import retracts, walk


def refuse_transform(node: Node, where: object = None) -> None:
    """A function sees a DataFrame; it would take a retraction for one more row."""
    why = "its function could not tell a retraction from a new row"
    _refuse(node, "transform", why, where, "where(...) and select(...)", events=True)


def refuse_process(node: Node, where: object = None) -> None:
    """A processor sees rows; it would take a retraction for one more row."""
    why = "a processor could not tell a retraction from a new row"
    _refuse(node, "process", why, where, "table(...)", events=True)


def refuse_pattern(node: Node, where: object = None) -> None:
    """Matches are not retracted."""
    why = "a match is not undone when one of its rows is retracted"
    _refuse(node, "pattern", why, where, "a pattern on the stream itself", events=True)


def refuse_join(node: Node, where: object = None) -> None:
    """Spark's join can't retract joined rows."""
    why = "joined rows can't be retracted"
    _refuse(node, "join", why, where, "enrich(...) or join_table(...), which support retraction")


def refuse_distinct(node: Node, where: object = None) -> None:
    """A duplicate would have to replace the kept row when that is retracted."""
    why = "when a kept row is retracted, its duplicates are already dropped"
    _refuse(node, "distinct", why, where, 'a table per key: by(...).table("name", n="count(*)")')


def refuse_windows(window: WindowSpec, node: Node, where: object = None) -> None:
    """Windows drop rows after folding them, so that they can't be retracted."""
    first = origin(node)
    feeds = f"windows on the stream that feeds {first.table!r}" if isinstance(first, Changes) else ""
    why = "the rows of a window are dropped once they are folded"
    _refuse(node, window.kind, why, where, feeds, events=window.kind == "last")


def refuse_ttl(node: Node, ttl: object, where: object = None) -> None:
    """An expired key has no state to retract a row from."""
    if ttl is not None and (first := origin(node)) is not None:
        bound = "ttl= of that table" if isinstance(first, Changes) else "keep= of enrich"
        source = origin_text(first)
        raise BadOption(
            f"`ttl` is not supported on a retracting stream: {source} may retract rows of an expired key",
            where=where,
            given=f"ttl={ttl!r}",
            hint=f"{bound}, which retracts the expired rows from this table",
        )


def check_folds(node: Node, columns: tuple[tuple[str, Expr | FoldSpec], ...], where: object = None) -> None:
    """Refuses folds without `retract` on a retracting stream."""
    first = origin(node)
    for name, value in columns:
        if first is not None and isinstance(value, FoldSpec) and value.retract is None:
            fields = ", ".join(f"{field!r}: '...'" for field, _ in value.zero)
            raise BadOption(
                f"column {name!r} is a fold without retract, and {origin_text(first)} may retract rows",
                where=where,
                given=f"kf.fold(...) at {value.site}",
                hint=f"add retract={{{fields}}}, the inverse of update, to the fold",
            )


def origin(node: Node) -> Changes | Enrich | None:
    """The step that makes a stream retracting: the one nearest to its source."""
    found = [each for each in walk(node) if isinstance(each, Changes | Enrich) and _retracts(each)]
    return found[-1] if found else None


def origin_text(first: Changes | Enrich) -> str:
    """The step as declared, with its line."""
    if isinstance(first, Changes):
        return f"{first.table}.changes() at {first.site}"
    return f"enrich({first.table}, on_update=True) at {first.site}"


def _retracts(node: Changes | Enrich) -> bool:
    return not node.previous if isinstance(node, Changes) else node.on_update


def _refuse(node: Node, what: str, why: str, where: object, other: str, *, events: bool = False) -> None:
    """`events`: whether `changes(previous=True)`, which never retracts, is an alternative."""
    if not retracts(node):
        return
    first = origin(node)
    assert first is not None
    if isinstance(first, Enrich):
        ways = ["leave on_update out", other]
    else:
        ways = [*(["changes(previous=True)"] if events else []), other]
    raise BadOption(
        f"{what} is not supported on a retracting stream: {origin_text(first)} may retract rows, and {why}",
        where=where,
        hint=", or ".join(way for way in ways if way),
    )
