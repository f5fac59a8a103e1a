"""What can't be done to a stream whose rows may be taken back, with the reason and another way."""

from __future__ import annotations

from keyfold.errors import BadOption
from keyfold.plan.nodes import Changes, Enrich, Expr, FoldSpec, Node, WindowSpec, retracts, walk


def refuse_transform(node: Node, where: object = None) -> None:
    """A function sees a DataFrame; it would take a row that is taken back for one more."""
    why = "its function could not tell a row that comes from one that is taken back"
    _refuse(node, "transform", why, where, "where(...) and select(...)", events=True)


def refuse_process(node: Node, where: object = None) -> None:
    """A processor sees rows; it would take one that is taken back for one more."""
    why = "a processor could not tell a row that comes from one that is taken back"
    _refuse(node, "process", why, where, "table(...)", events=True)


def refuse_pattern(node: Node, where: object = None) -> None:
    """A match that has been found stays found."""
    why = "a match can't be made without a row that it has taken"
    _refuse(node, "pattern", why, where, "a pattern of the stream itself", events=True)


def refuse_join(node: Node, where: object = None) -> None:
    """Spark's join has no way to take back what it has joined."""
    why = "what was joined stays joined"
    _refuse(node, "join", why, where, "enrich(...) or join_table(...), which follow changes")


def refuse_distinct(node: Node, where: object = None) -> None:
    """Which row is kept of equal ones would have to be chosen again."""
    why = "when a kept row goes, the repeats of it are gone too"
    _refuse(node, "distinct", why, where, 'a table per key: by(...).table("name", n="count(*)")')


def refuse_windows(window: WindowSpec, node: Node, where: object = None) -> None:
    """Windows forget rows; what is forgotten can't be taken back."""
    first = origin(node)
    feeds = f"windows on the stream that feeds {first.table!r}" if isinstance(first, Changes) else ""
    why = "rows of a window are folded once and forgotten"
    _refuse(node, window.kind, why, where, feeds, events=window.kind == "last")


def refuse_ttl(node: Node, ttl: object, where: object = None) -> None:
    """A key that is forgotten has nothing left to take a row from."""
    if ttl is not None and (first := origin(node)) is not None:
        bound = "ttl= of that table" if isinstance(first, Changes) else "keep= of enrich"
        raise BadOption(
            f"ttl can't be had here: rows of {words(first)} may be taken back, also from a forgotten key",
            where=where,
            given=f"ttl={ttl!r}",
            hint=f"{bound}: what goes there goes here too",
        )


def check_folds(node: Node, columns: tuple[tuple[str, Expr | FoldSpec], ...], where: object = None) -> None:
    """Refuses folds that can't take rows back."""
    first = origin(node)
    for name, value in columns:
        if first is not None and isinstance(value, FoldSpec) and value.retract is None:
            fields = ", ".join(f"{field!r}: '...'" for field, _ in value.zero)
            raise BadOption(
                f"column {name!r} is a fold without retract, and rows of {words(first)} may be taken back",
                where=where,
                given=f"kf.fold(...) at {value.site}",
                hint=f"retract={{{fields}}} in the fold: the state without a row, as update is with it",
            )


def origin(node: Node) -> Changes | Enrich | None:
    """The step that makes a stream's rows be taken back: the one nearest to its source."""
    found = [each for each in walk(node) if isinstance(each, Changes | Enrich) and _begins(each)]
    return found[-1] if found else None


def words(first: Changes | Enrich) -> str:
    """The step as the user wrote it, with its line."""
    if isinstance(first, Changes):
        return f"{first.table}.changes() at {first.site}"
    return f"enrich({first.table}, on_update=True) at {first.site}"


def _begins(node: Changes | Enrich) -> bool:
    return not node.previous if isinstance(node, Changes) else node.on_update


def _refuse(node: Node, what: str, why: str, where: object, other: str, *, events: bool = False) -> None:
    """`events`: whether changes as events would do, which have no event time and are never taken back."""
    if not retracts(node):
        return
    first = origin(node)
    assert first is not None
    if isinstance(first, Enrich):
        ways = ["leave on_update out", other]
    else:
        ways = [*(["changes(previous=True)"] if events else []), other]
    raise BadOption(
        f"{what} can't be had here: rows of {words(first)} may be taken back, and {why}",
        where=where,
        hint=", or ".join(way for way in ways if way),
    )
