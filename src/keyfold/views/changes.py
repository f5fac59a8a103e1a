"""Changes on their way into a store: checks of a record batch, canonical values, and the order of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from keyfold.errors import RunError, choice
from keyfold.views import arrow as pa
from keyfold.views.schema import Column, ViewSchema

_OPERATIONS: Final = ("upsert", "final", "delete")
_FEWEST_TO_SORT: Final = 1000
_AT_ONCE: Final = 5_000


def canonical_schema(schema: ViewSchema) -> pa.Schema:
    """The Arrow schema of changes as canonical values."""
    columns = (*schema.keys, *schema.columns)
    return pa.schema(
        [("_op", pa.string()), *((column.name, column.type.canonical_arrow) for column in columns)]
    )


def canonical(changes: pa.RecordBatch, schema: ViewSchema, batch: int) -> pa.RecordBatch:
    """The changes with canonical values; wrong columns or operations are a `RunError`."""
    expected = ["_op", *(column.name for column in (*schema.keys, *schema.columns))]
    if changes.schema.names != expected:
        raise RunError(
            "the changes do not have the columns of the view",
            given=", ".join(changes.schema.names),
            hint=", ".join(expected),
            table=schema.table,
            batch=batch,
        )
    operations = changes.column(0).cast(pa.string())
    if not pa.compute.all(pa.compute.is_in(operations, pa.array(_OPERATIONS))).as_py():
        found = ", ".join(map(repr, pa.compute.unique(operations).to_pylist()))
        hint = choice(_OPERATIONS)
        raise RunError("unknown operation in _op", given=found, hint=hint, table=schema.table, batch=batch)
    columns = [
        # Two casts: the first brings other units of time to microseconds. As a rule neither copies.
        values.cast(column.type.arrow).cast(column.type.canonical_arrow)
        for column, values in zip((*schema.keys, *schema.columns), changes.columns[1:], strict=True)
    ]
    return pa.RecordBatch.from_arrays([operations, *columns], schema=canonical_schema(schema))


def by_key(batches: list[pa.RecordBatch], schema: ViewSchema) -> list[pa.RecordBatch]:
    """Changes in the order of their keys; those of one key stay in their own order.

    The given list is empty afterwards, so that its changes are not in memory twice while they are sorted.
    """
    given = list(batches)
    batches.clear()
    if sum(batch.num_rows for batch in given) < _FEWEST_TO_SORT:
        return given
    # Rows are taken faster from one piece.
    table = pa.Table.from_batches(given).combine_chunks()
    del given
    keys = [(key.name, "ascending") for key in schema.keys]
    try:
        # The sort is stable.
        order = pa.compute.sort_indices(table, sort_keys=keys)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return list(table.to_batches())
    return list(table.take(order).to_batches())


def without_keys(
    changes: Sequence[pa.RecordBatch], keys: Sequence[pa.Array], schema: ViewSchema
) -> list[pa.RecordBatch]:
    """The changes of keys that are not among the given ones, for a view with one key column."""
    table = pa.Table.from_batches(changes, schema.arrow).combine_chunks()
    known = pa.compute.is_in(table.column(schema.keys[0].name), value_set=pa.concat_arrays(keys))
    return list(table.filter(pa.compute.invert(known)).to_batches())


def as_changes(rows: Iterable[Mapping[str, Any]], schema: ViewSchema) -> Iterator[pa.RecordBatch]:
    """The changes that produce rows returned by a view; a column that a row lacks is null."""
    columns = (*schema.keys, *schema.columns)
    left = iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        found = [_column(column, [row.get(column.name) for row in some]) for column in columns]
        operations = pa.array(["upsert"] * len(some), pa.string())
        yield pa.RecordBatch.from_arrays([operations, *found], schema=schema.arrow)


def _column(column: Column, values: list[Any]) -> pa.Array:
    """Python values as Spark would send them."""
    kind = column.type
    try:
        return pa.array(values, kind.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if kind.same_in_python:
            raise
    # Those that Python lacks, such as years after 9999, are text.
    canonical = [None if value is None else kind.to_canonical(value) for value in values]
    return pa.array(canonical, kind.canonical_arrow).cast(kind.arrow)
