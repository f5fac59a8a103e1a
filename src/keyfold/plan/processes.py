"""Checks of tables that a processor of the user's fills."""

from __future__ import annotations

from typing import cast

from keyfold.errors import BadExpression, BadOption
from keyfold.plan import checks, known, schema
from keyfold.plan.nodes import Named, ProcessMode, ProcessSpec


def process(
    processor: object, output: object, mode: object, initial: object, keys: Named, where: object = None
) -> ProcessSpec:
    """A processor, its output and what it begins with."""
    if not isinstance(processor, type) and hasattr(processor, "handleInputRows"):
        hint = f"the class: {type(processor).__name__}, or a function that makes one"
        problem = "the processor of process is an object: each task makes its own"
        raise BadExpression(problem, where=where, given=type(processor).__name__, hint=hint)
    made = checks.function(processor, 0, "the processor of process", where)
    columns = schema.columns(output, where, "output")
    for name in columns:
        # A processor may say of each row whether it is one or is none any more.
        if name != "_op":
            checks.identifier(name, "a column of output", where)
    known.require((name for name, _ in keys), columns, "by", "output, which holds the table's key", where)
    chosen = checks.one_of(mode, ("update", "append"), "mode of process", where)
    if initial is not None and not callable(initial):
        hint = "a function that gives a DataFrame: lambda spark: spark.read.parquet(...)"
        raise BadOption("initial must be a function", where=where, given=repr(initial), hint=hint)
    return ProcessSpec(made, str(output).strip(), cast(ProcessMode, chosen), initial)
