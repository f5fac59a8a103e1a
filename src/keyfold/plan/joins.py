"""Checks of joins, enrichment, distinct and changes, made when they are declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

from keyfold.errors import BadOption
from keyfold.plan import checks, durations
from keyfold.plan.nodes import AsOf, Distinct, Enrich, Expr, Join, JoinHow, LookUp, Lookup, Node, TableSpec
from keyfold.plan.options import key_column

HOWS = get_args(JoinHow)


def join(left: Node, right: Node, on: Any, within: Any, how: object, where: object) -> Join:
    """Two streams by equal columns, or by a condition, and by time."""
    before, after = _within(within, where)
    checked = cast(JoinHow, checks.one_of(how, HOWS, "how", where))
    columns, condition = _on(on, where)
    return Join(left, right, columns, condition, before, after, checked)


def _within(within: Any, where: object) -> tuple[int, int]:
    if within is None:
        raise BadOption("a join of two streams needs a bound", where=where, hint='within="1 hour"')
    if isinstance(within, tuple | list):
        before, after = within
        return tuple(durations.millis(w, "within", zero=True, where=where) for w in (before, after))  # type: ignore[return-value]
    ms = durations.millis(within, "within", zero=True, where=where)
    return ms, ms


def _on(on: Any, where: object) -> tuple[tuple[str, ...], Expr | None]:
    if isinstance(on, str) and not on.isidentifier():
        return (), checks.expression(on, "on", where)
    return columns_of(on, where), None


def columns_of(on: Any, where: object) -> tuple[str, ...]:
    """Column names, given as one or as several."""
    return tuple(key_column(c, where) for c in ([on] if isinstance(on, str) else on))


def enrich(
    node: Node,
    table: TableSpec,
    on: Any,
    how: object,
    wait: object,
    as_of: object,
    on_update: bool,
    keep: object,
    where: object,
) -> Enrich:
    """A stream with a table."""
    return Enrich(
        node,
        table.name,
        columns_of([n for n, _ in table.keys] if on is None else on, where),
        cast(JoinHow, checks.one_of(how, ("left", "inner"), "how", where)),
        None if wait is None else durations.millis(wait, "wait", zero=True, where=where),
        cast(AsOf, checks.one_of(as_of, ("arrival", "event"), "as_of", where)),
        on_update,
        None if keep is None else durations.millis(keep, "keep", where=where),
    )


def look_up(node: Node, lookup: Lookup, on: Any, how: object, where: object) -> LookUp:
    """A stream with a static side."""
    checked = cast(JoinHow, checks.one_of(how, ("left", "inner"), "how", where))
    return LookUp(node, lookup, columns_of(on, where), checked)


def distinct(node: Node, columns: Sequence[str], within: object, removed: bool, where: object) -> Distinct:
    """A stream without repeats."""
    checked = tuple(key_column(c, where) for c in columns)
    return Distinct(node, checked, durations.millis(within, "within", where=where), removed)
