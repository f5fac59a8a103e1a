"""Checks of a table's columns and options, which share its keyword arguments, and of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from keyfold.errors import BadName, BadOption, choice, did_you_mean, near
from keyfold.plan import durations
from keyfold.plan.nodes import Expr, FoldSpec, Named, TableSpec
from keyfold.plan.validate import arguments

RESERVED: Final = (
    "ttl", "emit", "keep", "idle", "partitions", "on_error",
    "history", "latency", "initial", "was", "budget", "max_keys", "private", "help",
)  # fmt: skip
"""Keyword arguments of `table` that are options, in this version or a planned one, and so not columns."""

SUPPORTED: Final = (
    "ttl", "emit", "keep", "idle", "history", "initial", "latency", "was", "partitions", "on_error",
    "private", "help",
)  # fmt: skip
"""The reserved names that this version supports."""

AS_COLUMN: Final = "for a column of that name, pass the columns as a dict"


def table_columns(
    given: object,
    keywords: Mapping[str, object],
    keys: Named,
    where: object = None,
    *,
    needed: bool = True,
) -> tuple[tuple[str, Expr | FoldSpec], ...]:
    """The columns of a table, from its dict and its keyword arguments, in that order.

    `needed`: whether at least one is required; top-N and latest default to the stream's columns.
    """
    columns = _mapping(given, where)
    for name, value in keywords.items():
        _refuse_option(name, value, where)
    arguments.unique([*columns, *keywords], "column", where)
    columns |= keywords
    if needed and not columns:
        raise BadOption("a table needs at least one column", where=where, hint='n="count(*)"')
    _refuse_keys(columns, keys, where)
    return tuple(
        (arguments.identifier(name, "a column", where), _value(name, columns[name], where))
        for name in columns
    )


def key_column(column: object, where: object = None) -> str:
    """The name of a key column; an expression needs a name."""
    try:
        return arguments.identifier(column, "a key", where)
    except BadName as error:
        if not isinstance(column, str):
            hint = "the name of a column, or a named expression: by(day=...)"
        else:
            hint = f"name the expression: by({arguments.suggest(column) or 'key'}={column!r})"
        raise BadName(error.what, where=where, given=error.given, hint=hint) from None


def length(value: object, name: str, where: object = None) -> int | None:
    """An option that is a duration, in milliseconds."""
    if value is None:
        return None
    refuse_aggregate(value, name, where)
    return durations.millis(value, name, where=where)


def old_name(value: object, name: str, where: object = None) -> str | None:
    """The name that a table had before."""
    if value is None:
        return None
    refuse_aggregate(value, "was", where)
    old = arguments.identifier(value, "was", where)
    if old.lower() == name.lower():
        raise BadOption(
            "was is the table's old name, and this is its name", where=where, given=f"was={old!r}"
        )
    return old


def private_columns(value: object, spec: TableSpec, where: object = None) -> tuple[str, ...]:
    """The columns that readers with a token do not see; none of the key, which names a row."""
    refuse_aggregate(value, "private", where)
    if not isinstance(value, list | tuple | set | frozenset):
        hint = f'private=["{value}"]' if isinstance(value, str) else 'private=["email"]'
        raise BadOption("private takes a list of columns", where=where, given=f"private={value!r}", hint=hint)
    columns = [name for name, _ in spec.columns]
    names = (arguments.identifier(one, "a private column", where) for one in value)
    return tuple(dict.fromkeys(_private(name, columns, spec.keys, where) for name in names))


def _private(name: str, columns: Sequence[str], keys: Named, where: object) -> str:
    if name.lower() in (key.lower() for key, _ in keys):
        hint = f'a key of another name: by({name}_hash="sha2({name}, 256)")'
        given = f"private={name!r}"
        raise BadOption("a key can't be private: it names the row", where=where, given=given, hint=hint)
    if not columns:
        # Those of top-N, patterns and processors are known at the start, which checks them.
        return name
    known = next((column for column in columns if column.lower() == name.lower()), None)
    if known is None:
        suggested = did_you_mean(name, columns, choice(columns))
        given = f"private={name!r}"
        raise BadName(f"no column {name!r} to be private", where=where, given=given, hint=suggested)
    return known


def refuse_aggregate(value: object, name: str, where: object = None) -> None:
    """Refuses an option that looks like an aggregate, which was meant as a column."""
    if isinstance(value, FoldSpec) or (isinstance(value, str) and "(" in value):
        given = f"{name}={'kf.fold(...)' if isinstance(value, FoldSpec) else repr(value)}"
        raise BadOption(
            f"`{name}` is an option of table, not a column",
            where=where,
            given=given,
            hint=f"{AS_COLUMN}: {{{name!r}: ...}}",
        )


def _mapping(given: object, where: object) -> dict[str, object]:
    if given is None:
        return {}
    advice = 'a dict, {"n": "count(*)"}, or keyword arguments, n="count(*)"'
    return arguments.mapping(given, "the columns of a table must be a dict", advice, where)


def _refuse_option(name: str, value: object, where: object) -> None:
    if name in RESERVED:
        problem = f"the option {name!r} of table is not supported yet"
        hint = f"{AS_COLUMN}: {{{name!r}: ...}}"
        raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=hint)
    # An aggregate has parentheses, so a bare word or a number is a misspelled option, not a column.
    meant = near(name, (option for option in SUPPORTED if abs(len(option) - len(name)) < 2), cutoff=0.65)
    if meant and not _may_be_column(value):
        problem, hint = f"unknown option {name!r} of table", f"did you mean {meant!r}?"
        raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=hint)
    if isinstance(value, Mapping):
        problem, hint = (
            f"column {name!r} is a dict",
            'a dict of columns is the second argument: table("name", {...})',
        )
        raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=hint)


def _may_be_column(value: object) -> bool:
    return "(" in value if isinstance(value, str) else isinstance(value, FoldSpec) or callable(value)


def _refuse_keys(columns: Mapping[str, object], keys: Named, where: object) -> None:
    taken = {name.lower(): name for name, _ in keys}
    for name in columns:
        if isinstance(name, str) and name.lower() in taken:
            key = taken[name.lower()]
            problem = f"column {name!r} has the name of the key {key!r}"
            raise BadName(problem, where=where, hint="another name for the column or the key")


def _value(name: str, value: object, where: object) -> Expr | FoldSpec:
    return value if isinstance(value, FoldSpec) else arguments.expression(value, f"column {name!r}", where)
