"""The keys and time ranges of a read, as key parts and as filters.

The key of a windowed table ends with `window_start` and `window_end`. A read of one row needs the whole key;
a read of many rows takes its first parts, or some parts by name, and a time range that the windows overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from keyfold.errors import QueryError, did_you_mean
from keyfold.plan.table_keys import BOUNDS
from keyfold.views.contract import Column, ViewSchema, Where
from keyfold.views.query import filters
from keyfold.views.query.filters import All, Compare, Filter
from keyfold.views.query.where_parser import filter_of
from keyfold.views.types.nested import Nested

RANGE: Final = ("since", "until")


def window_of(schema: ViewSchema) -> tuple[Column, Column] | None:
    """The columns of the window bounds, if the table is windowed."""
    last = schema.keys[-2:]
    return (last[0], last[1]) if tuple(column.name for column in last) == BOUNDS else None


def own_keys(schema: ViewSchema) -> tuple[Column, ...]:
    """The key columns that the user declared, without window bounds."""
    return schema.keys[:-2] if window_of(schema) else schema.keys


# One row


def whole_key(schema: ViewSchema, key: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
    """The parts of a key given as positional arguments, as one tuple, by name or as a dict."""
    first = key[0] if len(key) == 1 and _splits(schema.keys) else None
    if named or isinstance(first, Mapping):
        _refuse_both(schema, () if isinstance(first, Mapping) else key)
        parts = _by_name(schema, {**(first if isinstance(first, Mapping) else {}), **named})
        _refuse_no_window(schema, parts)
        _refuse_missing(schema, parts)
        return [parts[column.name] for column in schema.keys]
    given = first if isinstance(first, tuple | list) else key
    _refuse_no_window(schema, {column.name: part for column, part in zip(schema.keys, given, strict=False)})
    return given


def _splits(columns: Sequence[Column]) -> bool:
    """Whether a dict or tuple holds parts of the key; with one nested key column it is the key itself."""
    return len(columns) != 1 or not isinstance(columns[0].type, Nested)


def _refuse_both(schema: ViewSchema, key: Sequence[Any]) -> None:
    if key:
        what, hint = "the key is given both by position and by name", f"by name only: {_names(schema.keys)}"
        raise QueryError(what, where=schema.table, given=repr(key), hint=hint)


def _by_name(schema: ViewSchema, named: Mapping[Any, Any]) -> dict[str, Any]:
    known = {column.name.lower(): column.name for column in schema.keys}
    for name in named:
        if str(name).lower() not in known:
            near = did_you_mean(str(name), list(known.values()), _names(schema.keys))
            raise QueryError(f"{name!r} is not a key column", where=schema.table, hint=near)
    return {known[str(name).lower()]: value for name, value in named.items()}


def _refuse_no_window(schema: ViewSchema, parts: Mapping[str, Any]) -> None:
    own = own_keys(schema)
    if window_of(schema) and set(parts) == {column.name for column in own}:
        given = [parts[column.name] for column in own]
        shown = repr(given[0] if len(given) == 1 else tuple(given))
        options = " ".join(f"--key {_shown(part)}" for part in given)
        raise QueryError(
            f"the key of a windowed table also needs {' and '.join(BOUNDS)}",
            where=schema.table,
            given=", ".join(map(repr, given)),
            hint=f"for all windows of the key: rows(key={shown}), or keyfold rows {schema.table} {options}",
        )


def _shown(part: Any) -> str:
    """A key part for a command; one that no terminal can show, such as a lone surrogate, as Python has it."""
    text = str(part)
    return text if text.isprintable() else repr(part)


def _refuse_missing(schema: ViewSchema, parts: Mapping[str, Any]) -> None:
    missing = [column.name for column in schema.keys if column.name not in parts]
    if missing:
        hint = f"the key is: {_names(schema.keys)}"
        raise QueryError(f"the key is missing {', '.join(missing)}", where=schema.table, hint=hint)


# Several rows


def narrow(
    schema: ViewSchema,
    where: Where,
    key: Any = None,
    since: Any = None,
    until: Any = None,
    names: tuple[str, str] = RANGE,
) -> Where:
    """A `where` that also selects a key and the windows that overlap [since, until).

    `names` are the names of the two bounds in errors.
    """
    more = (*_key_filters(schema, key), *_range_filters(schema, since, until, names))
    return All((*more, filter_of(where, schema))) if more else where


def first_parts(schema: ViewSchema, key: Any) -> dict[str, Any]:
    """The given parts of a key, which may be incomplete, by column name."""
    if key is None:
        return {}
    splits = _splits(own_keys(schema))
    if isinstance(key, Mapping) and splits:
        return _by_name(schema, key)
    parts = list(key) if isinstance(key, tuple | list) and splits else [key]
    if len(parts) > len(schema.keys):
        most = f"the key has {len(schema.keys)} part{'s' * (len(schema.keys) > 1)}, {len(parts)} given"
        given = ", ".join(map(repr, parts))
        raise QueryError(most, where=schema.table, given=given, hint=_names(schema.keys))
    return {column.name: part for column, part in zip(schema.keys, parts, strict=False)}


def _key_filters(schema: ViewSchema, key: Any) -> list[Filter]:
    parts = first_parts(schema, key)
    found: list[Filter] = []
    for column in schema.keys:
        if column.name in parts:
            filters.key_part(column, parts[column.name], schema)
            found.append(Compare(column, "=", parts[column.name]))
    return found


def _range_filters(schema: ViewSchema, since: Any, until: Any, names: tuple[str, str]) -> list[Filter]:
    if since is None and until is None:
        return []
    window = window_of(schema)
    if window is None:
        given = " and ".join(n for n, v in zip(names, (since, until), strict=True) if v is not None)
        hint = "filter by a timestamp column with where"
        raise QueryError("the table is not windowed", where=schema.table, given=given, hint=hint)
    start, end = window
    bounds = [_instant(start, *pair, schema) for pair in zip(names, (since, until), strict=True)]
    if None not in bounds and bounds[0] >= bounds[1]:
        given = f"{names[0]} {since}, {names[1]} {until}"
        what, hint = "the time range is empty", f"{names[0]} must be before {names[1]}, which is exclusive"
        raise QueryError(what, where=schema.table, given=given, hint=hint)
    later = [] if since is None else [Compare(end, ">", since)]
    return [*later, *([] if until is None else [Compare(start, "<", until)])]


def _instant(column: Column, name: str, value: Any, schema: ViewSchema) -> Any:
    if value is None:
        return None
    try:
        return column.type.to_canonical(value)
    except ValueError:
        hint = "2026-01-31, or 2026-01-31T13:30:00Z; without a zone it is in UTC"
        what = f"{name} is not a date or timestamp"
        raise QueryError(what, where=schema.table, given=repr(value), hint=hint) from None


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)
