"""Checks of top-N and latest, whose tables keep whole rows."""

from __future__ import annotations

from dataclasses import replace

from keyfold.errors import BadName, BadOption
from keyfold.plan.describe.phrases import top_words, window_words
from keyfold.plan.nodes import Columns, Expr, FoldSpec, Named, TopSpec, WindowSpec
from keyfold.plan.table_keys import RANK
from keyfold.plan.validate import arguments


def top(n: object, by: object, where: object = None) -> TopSpec:
    """The first n rows of each key by an order."""
    count = arguments.positive(n, "n of top", where)
    advice = 'top(10, by="price desc")'
    arguments.require(by, "by", "top", advice, where)
    order = arguments.instance(
        by, str, "by= of top must be a string, as after ORDER BY in SQL", advice, where
    )
    if not order.strip():
        raise BadOption("by= of top is empty", where=where, given=repr(by), hint=advice)
    return TopSpec(count, order)


def latest(where: object = None) -> TopSpec:
    """The latest row of each key."""
    return TopSpec()


def refuse_after_window_or_top(
    window: WindowSpec | None, ranked: TopSpec | None, what: str, where: object = None
) -> None:
    """Refuses a second window, top or latest, and a processor or pattern after one."""
    if window is None and ranked is None:
        return
    if window is not None:
        has, site = f"the stream is already windowed, {window_words(window)}", window.site
    else:
        assert ranked is not None
        has, site = f"the stream already keeps {top_words(ranked)}", ranked.site
    problem = f"{what} is not supported here: {has}, declared at {site}"
    raise BadOption(problem, where=where, hint=f"start from by(...) again for a table with {what}")


def with_columns(
    ranked: TopSpec,
    keys: Named,
    columns: Columns,
    whole: tuple[str, ...] | None,
    where: object = None,
) -> TopSpec:
    """The same with columns; refuses those named `rank`, and folds: they are expressions on single rows.

    `whole` are the stream's columns, if they are known: without expressions they are the table's columns.
    """
    found: list[tuple[str, Expr]] = []
    for name, value in columns:
        if isinstance(value, FoldSpec):
            problem = (
                f"column {name!r} is a fold, and {top_words(ranked)} keeps rows without aggregating them"
            )
            hint = "an expression on the row, or a separate table for the fold"
            raise BadOption(problem, where=where, given=f"kf.fold(...) at {value.site}", hint=hint)
        found.append((name, value))
    if ranked.order is not None:
        _refuse_rank("key", [name for name, _ in keys], where)
        _refuse_rank("column", [name for name, _ in columns] or list(whole or ()), where)
    return replace(ranked, columns=tuple(found))


def _refuse_rank(what: str, names: list[str], where: object) -> None:
    for name in names:
        if name.lower() == RANK:
            problem = f"{what} {name!r} has the name of a column that every top-N table has"
            raise BadName(problem, where=where, hint=f"another name for the {what}")
