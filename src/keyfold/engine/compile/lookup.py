"""Lookup joins: the rows of a stream with the row that a lookup has for their key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from keyfold.engine.compile.context import Context
from keyfold.engine.internal_columns import PREFIX
from keyfold.engine.lookups import static_reader
from keyfold.engine.spark_errors import explain_errors
from keyfold.errors import BadExpression, BadOption, choice, did_you_mean
from keyfold.kernel.api import TableDeclaration
from keyfold.plan import nodes, tree


def lookup_join(context: Context, node: nodes.LookupJoin) -> TableDeclaration:
    """The kernel's declaration on the joined rows."""
    lookup = node.lookup
    before = context.end(context.rows(node.input))
    where = context.where(f"lookup {lookup.name}", node.site)
    theirs = static_reader.schema_of(lookup)
    mine = {name: kind for name, kind in before.dtypes if not name.startswith(PREFIX)}
    _check_keys(node, mine, {f.name: f.dataType.simpleString() for f in theirs.fields}, where)
    names = _names(node, list(mine), theirs.names, where)
    loaded = context.lookups.register(lookup, node.on)
    with explain_errors(context.spark, f"lookup {lookup.name}", where, f"on {', '.join(node.on)}"):
        java = loaded.kernel.join(before._jdf, theirs.json(), list(node.on), names, node.how == "inner")
    columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in theirs.fields)
    context.meaning[f"{context.stages}:lookup:{lookup.name}"] = (
        f"{node.how} on {', '.join(node.on)}: {columns}"
    )
    streams = tree.sources(node)
    return context.begin(node, context.frame(java), streams[0].name if len(streams) == 1 else None)


def _check_keys(
    node: nodes.LookupJoin, mine: Mapping[str, str], theirs: Mapping[str, str], where: str
) -> None:
    for column in node.on:
        if column.lower() not in (name.lower() for name in mine):
            hint = did_you_mean(column, mine, choice(mine))
            raise BadExpression(f"the stream has no column {column}", where=where, given=column, hint=hint)
        kinds = [next(k for n, k in c.items() if n.lower() == column.lower()) for c in (mine, theirs)]
        if kinds[0] != kinds[1]:
            raise BadExpression(
                f"{column} is {kinds[0]} in the stream and {kinds[1]} in lookup {node.lookup.name}",
                where=where,
                given=f"on {column}",
                hint=f"declare the lookup's {column} as {kinds[0]}, or cast the stream's with select",
            )


def _names(node: nodes.LookupJoin, mine: list[str], theirs: Iterable[str], where: str) -> dict[str, str]:
    """The names of the lookup's columns in the joined row."""
    on = {column.lower() for column in node.on}
    taken = {name.lower() for name in mine}
    others = [name for name in theirs if name.lower() not in on]
    names = {n: f"{node.lookup.name}_{n}" if n.lower() in taken else n for n in others}
    for column, name in names.items():
        if name.lower() in taken:
            raise BadOption(
                f"column {column} of lookup {node.lookup.name} can't be called {name}: "
                "the stream has a column of that name",
                where=where,
                given=", ".join(mine),
                hint=f"rename {name} with select before, or {column} in the lookup's schema",
            )
        taken.add(name.lower())
    return names
