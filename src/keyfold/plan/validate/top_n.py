"""Checks of tables that keep whole rows: the first ones by an order, or the newest."""

from __future__ import annotations

from typing import Final

from keyfold.errors import BadName, BadOption
from keyfold.plan.describe.phrases import top_words, window_words
from keyfold.plan.nodes import Expr, FoldSpec, Named, TableSpec, TopSpec, WindowSpec
from keyfold.plan.validate import arguments
from keyfold.plan.validate.emit import BOUNDS, closes

RANK: Final = "rank"
"""The last column of a top table's key: the place of a row, from 1."""
SEQ: Final = "seq"
"""The last key column of a processor's table in append mode."""
MATCH_ID: Final = "match_id"
"""The last key column of a pattern's table."""


def top(n: object, by: object, where: object = None) -> TopSpec:
    """The first n rows of a key."""
    count = arguments.positive(n, "n of top", where)
    advice = 'top(10, by="price desc")'
    arguments.required(by, "by", "top", advice, where)
    order = arguments.instance(by, str, "by of top must be SQL, as after ORDER BY", advice, where)
    if not order.strip():
        raise BadOption("by of top is empty", where=where, given=repr(by), hint=advice)
    return TopSpec(count, order)


def latest(where: object = None) -> TopSpec:
    """The newest row of a key."""
    return TopSpec()


def refuse_second(window: WindowSpec | None, ranked: TopSpec | None, what: str, where: object = None) -> None:
    """Refuses windows, ranks and processors on top of windows or ranks."""
    if window is None and ranked is None:
        return
    if window is not None:
        has, site = f"the stream has windows already: {window_words(window)}", window.site
    else:
        assert ranked is not None
        has, site = f"the stream is ranked already: {top_words(ranked)}", ranked.site
    problem = f"{what} can't be had here: {has}, declared at {site}"
    raise BadOption(problem, where=where, hint=f"by(...) once more, for a table with {what}")


def check_columns(
    ranked: TopSpec | None,
    keys: Named,
    columns: tuple[tuple[str, Expr | FoldSpec], ...],
    whole: tuple[str, ...] | None,
    where: object = None,
) -> None:
    """Refuses the name of the rank, and folds: what is kept of a row is an expression on it.

    `whole` are the columns of the stream, if they are known: without expressions they are the table's.
    """
    if ranked is None:
        return
    for name, value in columns:
        if isinstance(value, FoldSpec):
            problem = f"column {name!r} is a fold, and {top_words(ranked)} keeps rows as they are"
            hint = "an expression on a row, or a table of its own for the fold"
            raise BadOption(problem, where=where, given=f"kf.fold(...) at {value.site}", hint=hint)
    if ranked.order is not None:
        _refuse_rank("key", [name for name, _ in keys], where)
        _refuse_rank("column", [name for name, _ in columns] or list(whole or ()), where)


def key_names(table: TableSpec) -> tuple[str, ...]:
    """The columns by which a row of a table is found: its key, and what else tells its rows apart."""
    bounds = BOUNDS if closes(table.window) else ()
    rank = () if table.top is None or table.top.order is None else (RANK,)
    appended = (SEQ,) if table.process is not None and table.process.mode == "append" else ()
    match = () if table.pattern is None else (MATCH_ID,)
    return (*(name for name, _ in table.keys), *bounds, *rank, *appended, *match)


def _refuse_rank(what: str, names: list[str], where: object) -> None:
    for name in names:
        if name.lower() == RANK:
            problem = f"{what} {name!r} has the name that a top table gives to the place of a row"
            raise BadName(problem, where=where, hint=f"another name for the {what}")
