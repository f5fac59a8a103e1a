"""Checks of emit mode, TTL and retention of windows, and of the columns of windowed tables."""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn, cast

from keyfold.errors import BadName, BadOption
from keyfold.plan.nodes import Emit, Expr, FoldSpec, Join, Named, Node, WindowSpec
from keyfold.plan.table_keys import BOUNDS, closes
from keyfold.plan.tree import walk
from keyfold.plan.validate import arguments, retraction
from keyfold.plan.validate.table_options import length, refuse_aggregate

_NEVER_CLOSE: Final = {
    None: "the table has no windows",
    "rolling": "a rolling window moves with the rows of its key and never closes",
    "last": "a last-N window moves with the rows of its key and never closes",
}
_WHY_MERGE: Final = {
    "sliding": "sliding windows are merged from panes",
    "session": "sessions are merged when a row connects them",
    "rolling": "rolling windows with every= are merged from panes",
}
_WITHOUT_MERGE: Final = {
    "sliding": "set every= to the window size",
    "session": "use tumbling(...)",
    "rolling": "leave every= out",
}


class EmitOptions(NamedTuple):
    """Emit mode, and how long keys, closed windows and idle streams last."""

    ttl_ms: int | None
    emit: Emit
    keep_ms: int | None
    idle_ms: int | None


def emit_options(
    window: WindowSpec | None,
    node: Node,
    ttl: object,
    emit: object,
    keep: object,
    idle: object,
    where: object = None,
) -> EmitOptions:
    """The options, if the windows and the stream support them."""
    refuse_aggregate(emit, "emit", where)
    found = EmitOptions(
        length(ttl, "ttl", where),
        cast(Emit, arguments.one_of(emit, ("changes", "final"), "emit", where)),
        length(keep, "keep", where),
        length(idle, "idle", where),
    )
    if window is not None and closes(window):
        if ttl is not None:
            problem = f"`ttl` is not supported with {window.kind} windows, which close by themselves"
            hint = f"keep={ttl!r} sets how long a closed window is retained"
            raise BadOption(problem, where=where, given=f"ttl={ttl!r}", hint=hint)
        return found
    retraction.refuse_ttl(node, ttl, where)
    joined = any(isinstance(each, Join) for each in walk(node))
    for name, value in (("emit", emit), ("keep", keep), ("idle", None if joined else idle)):
        if value not in (None, "changes"):
            _refuse_without_closing_windows(window, name, value, where)
    return found


def merges(window: WindowSpec | None) -> bool:
    """Whether partial states are merged, so that a fold needs `merge`."""
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
    """Refuses columns with the names of window bounds, and folds without `merge` where states are merged."""
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
            problem = f"{what} {name!r} has the name of a column that every windowed table has"
            raise BadName(problem, where=where, hint=f"another name for the {what}")


def _refuse_fold(window: WindowSpec, name: str, fold: FoldSpec, where: object) -> NoReturn:
    fields = ", ".join(f"{field!r}: '...'" for field, _ in fold.zero)
    raise BadOption(
        f"column {name!r} is a fold without merge, and {_WHY_MERGE[window.kind]}",
        where=where,
        given=f"kf.fold(...) at {fold.site}",
        hint=f"add merge={{{fields}}}, on state and other, to the fold; or {_WITHOUT_MERGE[window.kind]}",
    )


def _refuse_without_closing_windows(
    window: WindowSpec | None, name: str, value: object, where: object
) -> NoReturn:
    kind = None if window is None else window.kind
    hint = f"leave {name} out, or use tumbling(...), sliding(...) or session(...)"
    if name == "keep":
        hint += "; ttl= expires keys without rows"
    if name == "idle":
        hint += "; joins of streams take idle= too"
    problem = f"`{name}` needs windows that close: {_NEVER_CLOSE[kind]}"
    raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=hint)
