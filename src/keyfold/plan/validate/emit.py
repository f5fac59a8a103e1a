"""Checks what a table says of its windows: when they are emitted, how long they stay, what they hold."""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn, cast

from keyfold.errors import BadName, BadOption
from keyfold.plan.nodes import Emit, Expr, FoldSpec, Join, Named, Node, WindowSpec, walk
from keyfold.plan.validate import arguments, retraction
from keyfold.plan.validate.table_options import length, refuse_aggregate

CLOSING: Final = ("tumbling", "sliding", "session")
"""Windows with an end. Their tables have a row per key and window, with the columns of `BOUNDS`."""

BOUNDS: Final = ("window_start", "window_end")

_ENDLESS: Final = {
    None: "a table without windows is never closed",
    "rolling": "rolling moves on with its key's rows and never closes",
    "last": "the last rows of a key move on with it and never close",
}
_WHY_MERGE: Final = {
    "sliding": "sliding windows are merged from panes",
    "session": "a row between two sessions merges them",
    "rolling": "rolling with every= merges panes",
}
_WITHOUT: Final = {
    "sliding": "every= as long as size",
    "session": "tumbling(...)",
    "rolling": "leave every= out",
}


class Stay(NamedTuple):
    """How long rows of a table stay, and which of their changes are emitted."""

    ttl_ms: int | None
    emit: Emit
    keep_ms: int | None
    idle_ms: int | None


def stay(
    window: WindowSpec | None,
    node: Node,
    ttl: object,
    emit: object,
    keep: object,
    idle: object,
    where: object = None,
) -> Stay:
    """The options, if they have a meaning with such windows, or without any, on such a stream."""
    refuse_aggregate(emit, "emit", where)
    found = Stay(
        length(ttl, "ttl", where),
        cast(Emit, arguments.one_of(emit, ("changes", "final"), "emit", where)),
        length(keep, "keep", where),
        length(idle, "idle", where),
    )
    if closes(window):
        if ttl is not None:
            problem = "ttl has no meaning with windows that close by themselves"
            hint = f"keep={ttl!r} says how long a closed window stays"
            raise BadOption(problem, where=where, given=f"ttl={ttl!r}", hint=hint)
        return found
    retraction.refuse_ttl(node, ttl, where)
    joined = any(isinstance(each, Join) for each in walk(node))
    for name, value in (("emit", emit), ("keep", keep), ("idle", None if joined else idle)):
        if value not in (None, "changes"):
            _refuse_endless(window, name, value, where)
    return found


def closes(window: WindowSpec | None) -> bool:
    """Whether there are windows that have an end."""
    return window is not None and window.kind in CLOSING


def merges(window: WindowSpec | None) -> bool:
    """Whether states are merged, so that a fold needs to say how."""
    if window is None:
        return False
    if window.kind == "sliding":
        return window.every_ms != window.size_ms
    return window.kind == "session" or (window.kind == "rolling" and window.every_ms is not None)


def check_columns(
    window: WindowSpec | None,
    keys: Named,
    columns: tuple[tuple[str, Expr | FoldSpec], ...],
    where: object = None,
) -> None:
    """Refuses the names that windows bring along, and folds that can't merge where that is needed."""
    if closes(window):
        _refuse_bounds("key", [name for name, _ in keys], where)
        _refuse_bounds("column", [name for name, _ in columns], where)
    if window is None or not merges(window):
        return
    for name, value in columns:
        if isinstance(value, FoldSpec) and value.merge is None:
            _refuse_fold(window, name, value, where)


def _refuse_bounds(what: str, names: list[str], where: object) -> None:
    for name in names:
        if name.lower() in BOUNDS:
            problem = f"{what} {name!r} has a name that the table's windows need for their bounds"
            raise BadName(problem, where=where, hint=f"another name for the {what}")


def _refuse_fold(window: WindowSpec, name: str, fold: FoldSpec, where: object) -> NoReturn:
    fields = ", ".join(f"{field!r}: '...'" for field, _ in fold.zero)
    raise BadOption(
        f"column {name!r} is a fold without merge, and {_WHY_MERGE[window.kind]}",
        where=where,
        given=f"kf.fold(...) at {fold.site}",
        hint=f"merge={{{fields}}} in the fold, of state and other; or {_WITHOUT[window.kind]}",
    )


def _refuse_endless(window: WindowSpec | None, name: str, value: object, where: object) -> NoReturn:
    kind = None if window is None else window.kind
    hint = f"leave {name} out, or tumbling(...), sliding(...) or session(...)"
    if name == "keep":
        hint += "; ttl= forgets a key that is silent"
    if name == "idle":
        hint += "; it is for joins of streams too"
    problem = f"{name} is for windows that close: {_ENDLESS[kind]}"
    raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=hint)
