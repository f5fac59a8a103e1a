"""A table's keyed state, declared to the kernel: its windows, keys, columns, folds and order."""

from __future__ import annotations

from functools import partial

from keyfold.engine.compile import pattern
from keyfold.engine.compile.context import Context
from keyfold.engine.compile.expressions import column
from keyfold.engine.spark_errors import explain_errors
from keyfold.kernel.api import DeclaredState, JavaColumn, TableDeclaration
from keyfold.plan import nodes
from keyfold.plan.describe import phrases
from keyfold.plan.nodes import FoldSpec, TableSpec, TopSpec, WindowSpec
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.table_keys import closes


def declare_table(context: Context, spec: TableSpec) -> TableDeclaration:
    """The declaration of a table: its rows, then each item that the user declared."""
    declaration = context.rows(spec.input)
    if spec.ttl_ms is not None:
        declaration.expireAfter(spec.ttl_ms)
    if spec.window is not None:
        _window(context, declaration, spec.window)
    for name, expression in spec.keys:
        context.at(f"key {name}", expression, spec.site, partial(declaration.key, name))
    top = spec.body if isinstance(spec.body, TopSpec) else None
    declare = declaration.aggregate if top is None else declaration.selectColumn
    for name, definition in spec.columns:
        if isinstance(definition, FoldSpec):
            _fold(context, declaration, name, definition)
        else:
            context.at(f"column {name}", definition, spec.site, partial(declare, name))
    if top is not None:
        _top(context, declaration, top)
    if isinstance(spec.body, PatternSpec):
        pattern.declare(context, declaration, spec, spec.body)
    return declaration


def _top(context: Context, declaration: DeclaredState, top: TopSpec) -> None:
    with explain_errors(context.spark, "top", context.where("top", top.site), top.order or "latest"):
        declaration.topN(top.n, top.order)


def _window(context: Context, declaration: DeclaredState, window: WindowSpec) -> None:
    """Declares the table's windows."""
    spec = context.spec
    where = context.where(window.kind, window.site)
    with explain_errors(context.spark, window.kind, where, phrases.window_words(window)):
        if window.kind in ("tumbling", "sliding"):
            assert window.size_ms is not None
            every = window.every_ms or window.size_ms
            declaration.timeWindow(window.size_ms, every, window.offset_ms, window.zone)
        elif window.kind == "session" and window.gap is not None:
            declaration.sessionWindowBy(column(window.gap)._jc)
        elif window.kind == "session":
            assert window.size_ms is not None
            declaration.sessionWindow(window.size_ms)
        else:
            declaration.rollingWindow(window.size_ms, window.rows, window.every_ms)
        if closes(window):
            declaration.windowEmission(spec.emit == "changes", spec.keep_ms)


def _fold(context: Context, declaration: DeclaredState, name: str, spec: FoldSpec) -> None:
    def columns(named: nodes.Named) -> list[JavaColumn]:
        # In the order of `zero`, whatever the order of `update` and `merge`.
        by_name = dict(named)
        return [column(by_name[n])._jc for n, _ in spec.zero]

    parts = {
        "zero": spec.zero,
        "update": spec.update,
        "merge": spec.merge or (),
        "retract": spec.retract or (),
    }
    shown = [
        f"{part}={ {n: phrases.expr_words(e) for n, e in named} }" for part, named in parts.items() if named
    ]
    where = context.where(f"column {name}", spec.site)
    assert spec.result is not None
    with explain_errors(
        context.spark,
        f"fold {name}",
        where,
        f"{', '.join(shown)}, result={phrases.expr_words(spec.result)!r}",
    ):
        fields = [n for n, _ in spec.zero]
        merge, retract = (None if part is None else columns(part) for part in (spec.merge, spec.retract))
        declaration.fold(
            name, fields, columns(spec.zero), columns(spec.update), merge, retract, column(spec.result)._jc
        )
