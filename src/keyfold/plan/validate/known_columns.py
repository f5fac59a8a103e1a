"""Checks column names against those that are known without Spark, to catch misspellings early."""

from __future__ import annotations

from collections.abc import Iterable

from keyfold.errors import BadName, BadOption, choice, did_you_mean
from keyfold.plan import ddl
from keyfold.plan.nodes import Distinct, Node, ProcessSpec, Source, TableSpec, Where
from keyfold.plan.pattern.syntax import PatternSpec, own_columns
from keyfold.plan.table_keys import key_names
from keyfold.plan.tree import name_of
from keyfold.plan.validate import arguments, kafka


def of_stream(node: Node) -> tuple[str, ...] | None:
    """The columns of a stream, if they are its source's; None if only Spark can tell."""
    while isinstance(node, Where | Distinct):
        node = node.input
    return of_source(node) if isinstance(node, Source) else None


def of_source(stream: Source) -> tuple[str, ...] | None:
    """The columns of a source's rows, those of messages' metadata last; None if only Spark can tell."""
    if stream.schema is None:
        return None
    added = {} if stream.connector.kafka is None else kafka.metadata_columns(stream.connector.kafka)
    return (*ddl.columns(stream.schema), *added)


def of_table(table: TableSpec) -> tuple[str, ...] | None:
    """The columns of a table, key first; None if only Spark can tell."""
    keys = key_names(table)
    body = table.body
    if isinstance(body, ProcessSpec):
        taken = {name.lower() for name in keys}
        return (*keys, *(name for name in ddl.columns(body.output) if name.lower() not in taken))
    if isinstance(body, PatternSpec):
        own = own_columns(timeouts=body.timeouts)
        return (*keys, *own, *(name for name, _ in body.returns))
    return (*keys, *(name for name, _ in body.columns)) if body.columns else None


def columns(given: object, option: str, where: object = None) -> tuple[str, ...]:
    """Column names, given as one string or as several."""
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
    """The name of a column; for an expression the hint says how to make it a column."""
    try:
        return arguments.identifier(name, "a column", where)
    except BadName as error:
        made = arguments.suggest(name) if isinstance(name, str) else None
        if made is None:
            hint = f"{option} takes names of columns"
        else:
            hint = f'make it a column first: .select("*", {made}={name!r})'
        raise BadName(error.what, where=where, given=error.given, hint=hint) from None


def require(names: Iterable[str], known: Iterable[str] | None, option: str, of: str, where: object) -> None:
    """Refuses an unknown name and suggests the nearest known one."""
    if known is None:
        return
    listed = tuple(known)
    lower = {name.lower() for name in listed}
    for name in names:
        if name.lower() not in lower:
            hint = did_you_mean(name, listed, choice(listed))
            raise BadOption(f"{option} names {name!r}, which is not a column of {of}", where=where, hint=hint)


def require_in_stream(names: Iterable[str], node: Node, option: str, where: object = None) -> None:
    """Refuses a name that is not a column of the stream, as far as its columns are known."""
    require(names, of_stream(node), option, f"stream {name_of(node)!r}", where)
