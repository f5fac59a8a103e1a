"""What a table keeps of a key, told to the kernel: its windows, columns, folds and order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from keyfold.engine.compile import pattern
from keyfold.engine.compile.expressions import column
from keyfold.engine.spark_errors import explained
from keyfold.plan import nodes
from keyfold.plan.describe import phrases
from keyfold.plan.nodes import FoldSpec, TableSpec, TopSpec, WindowSpec
from keyfold.plan.validate.emit import closes

if TYPE_CHECKING:
    from keyfold.engine.compile.context import Context


def tell(context: Context, pipeline: Any, spec: TableSpec) -> None:
    """Hands the declaration of a table to the pipeline of its rows, item by item."""
    if spec.window is not None:
        _window(context, pipeline, spec.window)
    for name, expression in spec.keys:
        context.at(f"key {name}", expression, spec.site, partial(pipeline.key, name))
    take = pipeline.aggregate if spec.top is None else pipeline.selectColumn
    for name, given in spec.columns:
        if isinstance(given, FoldSpec):
            _fold(context, pipeline, name, given)
        else:
            context.at(f"column {name}", given, spec.site, partial(take, name))
    if spec.top is not None:
        _top(context, pipeline, spec.top)
    if spec.pattern is not None:
        pattern.tell(context, pipeline, spec, spec.pattern)


def _top(context: Context, pipeline: Any, top: TopSpec) -> None:
    with explained(context.spark, "top", context.where("top", top.site), top.order or "latest"):
        pipeline.topN(top.n, top.order)


def _window(context: Context, pipeline: Any, window: WindowSpec) -> None:
    """Tells the kernel of the table's windows; lengths are milliseconds, zero where there is none."""
    spec = context.spec
    where = context.where(window.kind, window.site)
    with explained(context.spark, window.kind, where, phrases.window_words(window)):
        if window.kind in ("tumbling", "sliding"):
            pipeline.timeWindow(
                window.size_ms, window.every_ms or window.size_ms, window.offset_ms, window.zone
            )
        elif window.kind == "session" and window.gap is not None:
            pipeline.sessionWindowBy(column(window.gap)._jc)
        elif window.kind == "session":
            pipeline.sessionWindow(window.size_ms)
        else:
            pipeline.rollingWindow(window.size_ms or 0, window.rows or 0, window.every_ms or 0)
        if closes(window):
            pipeline.windowEmission(spec.emit == "changes", spec.keep_ms or 0)


def _fold(context: Context, pipeline: Any, name: str, spec: FoldSpec) -> None:
    def columns(named: nodes.Named) -> list[Any]:
        # in the order of zero, however update and merge were written
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
    with explained(
        context.spark,
        f"fold {name}",
        where,
        f"{', '.join(shown)}, result={phrases.expr_words(spec.result)!r}",
    ):
        fields = [n for n, _ in spec.zero]
        merge, retract = (None if part is None else columns(part) for part in (spec.merge, spec.retract))
        pipeline.fold(
            name, fields, columns(spec.zero), columns(spec.update), merge, retract, column(spec.result)._jc
        )
