"""Checks of enrich with a table or a lookup, and of join_table."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn, cast

from keyfold.errors import BadOption
from keyfold.plan import ddl, durations
from keyfold.plan.describe.phrases import top_words
from keyfold.plan.nodes import (
    AggregateSpec,
    AsOf,
    Body,
    Changes,
    Enrich,
    Lookup,
    LookupJoin,
    Named,
    Node,
    ProcessSpec,
    Select,
    Site,
    TableSpec,
    TopSpec,
)
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.table_keys import key_names
from keyfold.plan.tree import reads, retracts, walk
from keyfold.plan.validate import arguments, event_time, known_columns, retraction
from keyfold.plan.validate.join import join_how

_HOWS: Final = ("left", "inner")
_TABLE_HOWS: Final = ("inner", "left", "right", "full")
# `_op` is of the left table's change; the joined row gets a change of its own.
_WITHOUT_OP: Final = "* except (_op)"


class Options(NamedTuple):
    """The options of enrich, unchecked."""

    how: object
    wait: object = None
    as_of: object = "arrival"
    on_update: object = False
    keep: object = None


def enrich(node: Node, table: TableSpec, on: Any, options: Options, where: object = None) -> Enrich:
    """An enrichment with a table."""
    columns = _on_columns(on, table, where)
    known_columns.require_in_stream(columns, node, "on", where)
    how = join_how(options.how, _HOWS, where)
    wait = (
        durations.millis(options.wait, "wait", zero=True, where=where) if options.wait is not None else None
    )
    as_of = cast(AsOf, arguments.one_of(options.as_of, ("arrival", "event"), "as_of", where))
    on_update = arguments.flag(options.on_update, "on_update", where)
    keep = durations.millis(options.keep, "keep", where=where) if options.keep is not None else None
    if as_of == "event":
        _check_as_of_event(node, table, where)
    # Rows that may be retracted must be kept: their retraction needs what they were enriched with.
    follows = on_update or retracts(node)
    _check_on_update(node, options, follows, where)
    if wait is not None:
        event_time.require(node, "wait", where)
    if keep is not None:
        _check_keep(node, keep, options.keep, where)
    return Enrich(node, table.name, columns, how, wait, as_of, follows, keep)


def lookup_join(node: Node, lookup: Lookup, on: Any, options: Options, where: object = None) -> LookupJoin:
    """An enrichment with a lookup."""
    for name, value in options._asdict().items():
        if name != "how" and value != Options._field_defaults[name]:
            problem = f"enrich with a lookup does not take {name}=: rows get the version that was read last"
            raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=f"leave {name} out")
    has = ddl.columns(lookup.schema)
    if on is None:
        problem = f"enrich with lookup {lookup.name!r} needs on=: columns that it and the stream both have"
        raise BadOption(problem, where=where, hint=f"on={next(iter(has))!r}")
    columns = known_columns.columns(on, "on", where)
    known_columns.require(columns, has, "on", f"lookup {lookup.name!r}", where)
    known_columns.require_in_stream(columns, node, "on", where)
    how = join_how(options.how, _HOWS, where)
    if lookup.refresh_ms is not None and (first := retraction.origin(node)) is not None:
        source = retraction.origin_text(first)
        problem = (
            f"a lookup with `refresh` is not supported on a retracting stream: {source} may retract rows"
        )
        why = "that were enriched with an earlier version"
        hint = "leave refresh out, or enrich the stream that feeds the table"
        raise BadOption(f"{problem} {why}", where=where, hint=hint)
    return LookupJoin(node, lookup, columns, how)


def join_table(
    name: str, left: TableSpec, right: TableSpec, on: Any, how: object, where: object, site: Site | None
) -> TableSpec:
    """A table of two others: the changes of the left one, enriched with the right one."""
    kind = join_how(how, _TABLE_HOWS, where)
    own = key_names(left)
    columns = _on_columns(list(own) if on is None else on, right, where)
    known_columns.require(columns, known_columns.of_table(left), "on", f"table {left.name!r}", where)
    if kind in ("right", "full") and {c.lower() for c in columns} != {c.lower() for c in own}:
        raise BadOption(
            f"a {kind} join of tables needs the whole key of {left.name!r} in on: otherwise a row of"
            f" {right.name!r} without a match would have no key",
            where=where,
            given=f"on={list(columns)!r}; the key is {', '.join(own)}",
            hint="how='left' or how='inner', or the whole key in on",
        )
    plain = Select(Changes(left.name, False, site), ((None, _WITHOUT_OP),), site)
    node = Enrich(plain, right.name, columns, kind, on_update=True, site=site)
    keys: Named = tuple((key, key) for key in own)
    return TableSpec(left.app, name, node, keys, TopSpec(site=site), site=site)


def _on_columns(on: Any, table: TableSpec, where: object) -> tuple[str, ...]:
    """The columns that match the table's key, one for each of its columns."""
    keys = key_names(table)
    columns = known_columns.columns(list(keys) if on is None else on, "on", where)
    if len(columns) != len(keys):
        count = "1 column" if len(keys) == 1 else f"{len(keys)} columns"
        raise BadOption(
            f"on must name {count}, for the key of table {table.name!r}: {', '.join(keys)}",
            where=where,
            given=f"on={list(columns)!r}",
            hint=f"on={list(keys)!r}, or columns of other names in that order",
        )
    return columns


def _check_on_update(node: Node, options: Options, follows: bool, where: object) -> None:
    if not follows:
        if options.keep is not None:
            problem = "`keep` needs on_update=True: other rows are not kept"
            _refuse(problem, where, "keep", options.keep, "on_update=True, or leave keep out")
        return
    first = retraction.origin(node)
    option = "on_update" if first is None else f"on_update, which {retraction.origin_text(first)} implies"
    if options.wait is not None:
        problem = f"`wait` is not supported with {option}: such rows are updated when the table changes"
        _refuse(problem, where, "wait", options.wait, "leave wait out")
    if options.as_of == "event":
        problem = (
            f"as_of='event' is not supported with {option}: the table's row as of a past time never changes"
        )
        _refuse(
            problem, where, "as_of", "event", "leave one of them out" if first is None else "as_of='arrival'"
        )


def _check_keep(node: Node, keep: int, given: object, where: object) -> None:
    """Rows must be kept for as long as they may be retracted."""
    for each in walk(node):
        changes = isinstance(each, Changes) and not each.previous
        longer = isinstance(each, Enrich) and each.on_update and (each.keep_ms is None or each.keep_ms > keep)
        if changes or longer:
            assert isinstance(each, Changes | Enrich)
            problem = f"`keep` is too short: {retraction.origin_text(each)} may retract rows later than that"
            _refuse(
                problem,
                where,
                "keep",
                given,
                "leave keep out" if changes else "keep= at least as long as there",
            )


def _check_as_of_event(node: Node, table: TableSpec, where: object) -> None:
    """A table as of a past time is known only if its rows have event time and are folded one by one."""
    event_time.require(node, "as_of='event'", where)
    event_time.require(table.input, "as_of='event'", where)
    why = _not_one_by_one(table.body)
    if why is None and (first := retraction.origin(table.input)) is not None:
        why = f"{retraction.origin_text(first)} may retract rows, without event time"
    elif why is None and reads(table.input):
        why = "its rows are enriched with other tables"
    if why is not None:
        problem = f"as_of='event' is not supported with table {table.name!r}: {why}"
        _refuse(problem, where, "as_of", "event", "as_of='arrival'")


def _not_one_by_one(body: Body) -> str | None:
    """Why a table does not keep one row per key that each row of the input folds into."""
    match body:
        case AggregateSpec():
            return None if body.window is None else "it is windowed"
        case TopSpec():
            return None if body.order is None else f"it keeps {top_words(body)}"
        case ProcessSpec():
            return "a processor fills it"
        case PatternSpec():
            return "its rows are matches"


def _refuse(problem: str, where: object, name: str, value: object, hint: str) -> NoReturn:
    raise BadOption(problem, where=where, given=f"{name}={value!r}", hint=hint)
