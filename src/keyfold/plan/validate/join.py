"""Checks of joins of two streams."""

from __future__ import annotations

import re
from typing import Any, Final, cast, get_args

from keyfold.errors import BadOption
from keyfold.plan import durations
from keyfold.plan.nodes import Expr, Join, JoinHow, Node
from keyfold.plan.validate import arguments, event_time, known_columns, retraction

HOWS: Final = get_args(JoinHow)
# Synonyms in Spark and SQL.
_SYNONYMS: Final = {
    "outer": "full",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
    "cross": "inner",
}
_LIST: Final = re.compile(r"\s*\w+\s*(,\s*\w+\s*)+")
_COLUMN: Final = re.compile(r"\s*\w+\s*")


def join(left: Node, right: Node, on: Any, within: Any, how: object, where: object = None) -> Join:
    """A join of two streams by equal columns or a condition, and by time."""
    before, after = _within(within, where)
    checked = join_how(how, HOWS, where)
    columns, condition = _on(on, where)
    for node in (left, right):
        retraction.refuse_join(node, where)
        event_time.require(node, "a join of streams", where)
        event_time.refuse_delayed_rows(node, "join", where)
        known_columns.require_in_stream(columns, node, "on", where)
    return Join(left, right, columns, condition, before, after, checked)


def join_how(how: object, choices: tuple[str, ...], where: object = None) -> JoinHow:
    """The kind of a join; the hint translates names that other tools use."""
    meant = how.lower().replace(" ", "_").removesuffix("_outer") if isinstance(how, str) else None
    meant = _SYNONYMS.get(meant or "", meant)
    if how not in choices and meant in choices:
        problem = f"how must be one of: {', '.join(choices)}"
        raise BadOption(problem, where=where, given=repr(how), hint=f"how={meant!r}")
    return cast(JoinHow, arguments.one_of(how, choices, "how", where))


def _within(within: Any, where: object) -> tuple[int, int]:
    if within is None:
        problem = "a join of streams needs within=: without a time bound its state would grow forever"
        hint = 'within="1 hour", or within=("1 hour", "10 minutes") for older and newer rows'
        raise BadOption(problem, where=where, hint=hint)
    if not isinstance(within, tuple | list):
        ms = durations.millis(within, "within", zero=True, where=where)
        return ms, ms
    if len(within) != 2:
        problem = "within must be one duration, or two: how much older and how much newer"
        hint = 'within="1 hour", or within=("1 hour", "10 minutes")'
        raise BadOption(problem, where=where, given=f"within={within!r}", hint=hint)
    before, after = within
    return (
        durations.millis(before, "the first duration of within", zero=True, where=where),
        durations.millis(after, "the second duration of within", zero=True, where=where),
    )


def _on(on: Any, where: object) -> tuple[tuple[str, ...], Expr | None]:
    """Columns that both streams have, or a condition."""
    if isinstance(on, str) and _LIST.fullmatch(on):
        names = [name.strip() for name in on.split(",")]
        raise BadOption("on is a list in one string", where=where, given=f"on={on!r}", hint=f"on={names!r}")
    if callable(on) or (isinstance(on, str) and on.strip() and not _COLUMN.fullmatch(on)):
        return (), arguments.expression(on, "on", where)
    hint = 'on="id", or on="orders.id = payments.order_id"'
    arguments.require(on, "on", "join", hint, where)
    if isinstance(on, str) and not on.strip():
        raise BadOption("on is empty", where=where, given=f"on={on!r}", hint=hint)
    return known_columns.columns(on, "on", where), None
