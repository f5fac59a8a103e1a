"""Two streams joined by equal columns and by time, on Spark's own stream-stream join.

Side outputs of either input bypass the join inside its task (kernel/scala/join), so that no source is read
twice. Spark's join would silently drop a row as old as the watermark: it goes to the side output before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.context import Context
from keyfold.engine.internal_columns import TIME, computed_column, visible
from keyfold.engine.spark_errors import explain_errors
from keyfold.errors import BadExpression, choice, did_you_mean
from keyfold.kernel.api import DeclaredRows, StreamJoin, TableDeclaration, java_column
from keyfold.plan import nodes, tree
from keyfold.plan.describe import phrases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ONE_SIDED = ("left_semi", "left_anti")
JOINED: Final = "joined"
"""The part of a table's meaning that has the columns of a side, with their types."""


@dataclass(frozen=True)
class Side:
    """One of the joined streams: its name in conditions and clashes, its declaration and its columns."""

    name: str
    declaration: DeclaredRows
    frame: DataFrame

    @property
    def columns(self) -> list[str]:
        """The user's columns."""
        return visible(self.frame.columns)


def compile_join(context: Context, node: nodes.Join) -> TableDeclaration:
    """The declaration of the joined stream."""
    left, right = (_side(context, side) for side in (node.left, node.right))
    where = context.where("join", node.site)
    for side in (left, right):
        _refuse_timeless(side, where)
    names = _names(left, right, node, where)
    with explain_errors(context.spark, "join", where, _describe_given(node)):
        join = context.api.join(left.frame._jdf, right.frame._jdf, left.name, right.name)
        _match(join, left, right, node, where)
        ready = [_declare_computed(side, join.computes(i)) for i, side in enumerate((left, right))]
        rows = [context.end(declaration, "upto")._jdf for declaration in ready]
        frame = join.joined(rows[0], rows[1], node.before_ms, node.after_ms, node.how, names[0], names[1])
    context.meaning[f"{context.stages}:join"] = f"{node.how} {phrases.near_words(node)} on {join.meaning()}"
    for side in (left, right):
        # Spark keeps whole rows of both sides, and reads them with the types that they have now.
        types = [f"{f.name} {f.dataType.simpleString()}" for f in side.frame.schema if f.name in side.columns]
        context.meaning[f"{context.stages}:{JOINED}:{side.name}"] = ", ".join(types)
    return context.begin(node, context.frame(frame))


def _side(context: Context, node: nodes.Node) -> Side:
    declaration = context.rows(node)
    return Side(tree.name_of(node).replace("+", "_"), declaration, context.frame(declaration.rows(None)))


def _refuse_timeless(side: Side, where: str) -> None:
    if TIME not in side.frame.columns:
        raise BadExpression(
            f"stream {side.name} has no event time, which a join needs",
            where=where,
            given=side.name,
            hint="declare it with time=..., and keep that column in a transform",
        )


def _describe_given(node: nodes.Join) -> str:
    if node.condition is None:
        return f"on={', '.join(node.on)}"
    if isinstance(node.condition, str):
        return node.condition
    return f"<function {getattr(node.condition, '__name__', '?')}>"


def _match(join: StreamJoin, left: Side, right: Side, node: nodes.Join, where: str) -> None:
    """Declares the equal columns, or the condition."""
    from pyspark.sql import functions as F

    if node.condition is not None:
        condition = F.expr(node.condition) if isinstance(node.condition, str) else node.condition()
        join.where(java_column(condition))
        return
    for name in node.on:
        for side in (left, right):
            if name.lower() not in _lower(side.columns):
                raise BadExpression(
                    f"join: there is no column {name} in {side.name}",
                    where=where,
                    given=_describe_given(node),
                    hint=did_you_mean(name, side.columns, choice(side.columns)),
                )
    join.by(list(node.on))


def _declare_computed(side: Side, expressions: Iterable[Any]) -> DeclaredRows:
    """The side's declaration, which rejects rows on which the condition's expressions over this side fail."""
    from pyspark.sql import functions as F

    own = [java_column(F.col(f"`{c}`")) for c in side.columns]
    # The values are computed to see whether that fails, and then left out again.
    made = [e.alias(computed_column(i)) for i, e in enumerate(expressions)]
    if made:
        side.declaration.select(own + made)
        side.declaration.select(own)
    return side.declaration


def _names(left: Side, right: Side, node: nodes.Join, where: str) -> list[list[str | None]]:
    """The names of both sides' columns in the result, in order; None for a column that is not in it."""
    if node.how in ONE_SIDED:
        return [list(left.columns), [None for _ in right.columns]]
    keys = _lower(node.on)
    clashing = (_lower(left.columns) & _lower(right.columns)) - keys
    names = [
        [
            None
            if side is right and c.lower() in keys
            else f"{side.name}_{c}"
            if c.lower() in clashing
            else c
            for c in side.columns
        ]
        for side in (left, right)
    ]
    _unambiguous([n for side in names for n in side if n is not None], where)
    return names


def _unambiguous(names: list[str], where: str) -> None:
    seen = [n.lower() for n in names]
    twice = [n for i, n in enumerate(names) if n.lower() in seen[:i]]
    if twice:
        raise BadExpression(
            f"join: two columns would be called {' and two '.join(dict.fromkeys(twice))}",
            where=where,
            given=", ".join(names),
            hint="rename one of them first: .select(...) on one of the streams",
        )


def _lower(names: Iterable[str]) -> set[str]:
    return {n.lower() for n in names}
