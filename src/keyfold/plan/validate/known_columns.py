"""Column names that a declaration knows without Spark, so that a misspelt one is refused at once."""

from __future__ import annotations

from collections.abc import Iterable

from keyfold.errors import BadName, BadOption, did_you_mean
from keyfold.plan import ddl
from keyfold.plan.nodes import Distinct, Node, Source, TableSpec, Where, name_of
from keyfold.plan.pattern.syntax import own_columns
from keyfold.plan.validate import arguments
from keyfold.plan.validate.top_n import key_names


def of_stream(node: Node) -> tuple[str, ...] | None:
    """The columns of a stream that has those of its source; None if only Spark can tell."""
    while isinstance(node, Where | Distinct):
        node = node.input
    if isinstance(node, Source) and node.schema is not None:
        return tuple(ddl.columns(node.schema))
    return None


def of_table(table: TableSpec) -> tuple[str, ...] | None:
    """The columns of a table's rows, its key first; None if only Spark can tell."""
    keys = key_names(table)
    if table.process is not None:
        taken = {name.lower() for name in keys}
        return (*keys, *(name for name in ddl.columns(table.process.output) if name.lower() not in taken))
    if table.pattern is not None:
        own = own_columns(timeouts=table.pattern.timeouts)
        return (*keys, *own, *(name for name, _ in table.pattern.returns))
    return (*keys, *(name for name, _ in table.columns)) if table.columns else None


def columns(given: object, option: str, where: object = None) -> tuple[str, ...]:
    """Column names, given as one or as several."""
    names = [given] if isinstance(given, str) else given
    advice = f'{option}="id", or {option}=["id", "day"]'
    if isinstance(names, dict) or not isinstance(names, Iterable):
        raise BadOption(
            f"{option} must be the name of a column, or a list of them",
            where=where, given=f"{option}={given!r}", hint=advice,
        )  # fmt: skip
    found = tuple(column(name, option, where) for name in names)
    if not found:
        raise BadOption(f"{option} needs at least one column", where=where, given=repr(given), hint=advice)
    arguments.unique(found, f"column of {option}", where)
    return found


def column(name: object, option: str, where: object = None) -> str:
    """The name of a column; an expression is made a column first."""
    try:
        return arguments.identifier(name, "a column", where)
    except BadName as error:
        made = arguments.suggested(name) if isinstance(name, str) else None
        if made is None:
            hint = f"names of columns in {option}"
        else:
            hint = f'a column of it first: .select("*", {made}={name!r})'
        raise BadName(error.what, where=where, given=error.given, hint=hint) from None


def require(names: Iterable[str], known: Iterable[str] | None, option: str, of: str, where: object) -> None:
    """Refuses a name that is not among the known ones, and suggests the nearest."""
    if known is None:
        return
    listed = tuple(known)
    lower = {name.lower() for name in listed}
    for name in names:
        if name.lower() not in lower:
            hint = did_you_mean(name, listed, f"one of: {', '.join(listed)}")
            raise BadOption(f"{option} names {name!r}, which is no column of {of}", where=where, hint=hint)


def require_in_stream(names: Iterable[str], node: Node, option: str, where: object = None) -> None:
    """Refuses a name that a stream doesn't have, as far as that is known."""
    require(names, of_stream(node), option, f"stream {name_of(node)!r}", where)
