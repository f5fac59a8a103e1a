"""Checks of tables that a user's `StatefulProcessor` fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from keyfold.errors import BadExpression, BadName, BadOption
from keyfold.plan import ddl
from keyfold.plan.nodes import Named, ProcessMode, ProcessSpec
from keyfold.plan.table_keys import SEQ
from keyfold.plan.validate import arguments, known_columns


def process(
    processor: object, output: object, mode: object, initial: object, keys: Named, where: object = None
) -> ProcessSpec:
    """A processor, its output schema, its mode and its initial rows."""
    if not isinstance(processor, type) and hasattr(processor, "handleInputRows"):
        hint = f"the class {type(processor).__name__}, or a function that creates an instance"
        problem = "the processor of process must be a class, not an instance: each task creates its own"
        raise BadExpression(problem, where=where, given=type(processor).__name__, hint=hint)
    made = arguments.function(processor, 0, "the processor of process", where)
    example = 'output="customer string, points double", with the columns of the key'
    arguments.require(output, "output", "process", example, where)
    columns = ddl.columns(output, where, "output")
    for name in columns:
        # A processor may mark each row as an upsert or a delete.
        if name != "_op":
            arguments.identifier(name, "a column of output", where)
    known_columns.require(
        (name for name, _ in keys), columns, "by", "output, which holds the table's key", where
    )
    chosen = arguments.one_of(mode, ("update", "append"), "mode of process", where)
    _check_reserved(columns, chosen, where)
    if initial is not None and not callable(initial):
        hint = "a function that returns a DataFrame: lambda spark: spark.read.parquet(...)"
        raise BadOption("initial must be a function", where=where, given=repr(initial), hint=hint)
    return ProcessSpec(made, str(output).strip(), cast(ProcessMode, chosen), initial)


def _check_reserved(columns: Mapping[str, str], mode: str, where: object) -> None:
    """Refuses columns that keyfold adds in that mode, and an `_op` of another type."""
    taken = next((name for name in columns if name.lower() == SEQ and mode == "append"), None)
    if taken is not None:
        problem = f"{taken!r} is a column that keyfold adds in append mode"
        raise BadName(problem, where=where, given=f"mode={mode!r}", hint="another name")
    kind = columns.get("_op", "string")
    if kind.lower() != "string" or ("_op" in columns and mode == "append"):
        problem = "_op must be a string, 'upsert' or 'delete', and needs mode='update'"
        hint = "another name; in append mode every row is an upsert"
        raise BadOption(problem, where=where, given=f"_op {kind}, mode={mode!r}", hint=hint)
