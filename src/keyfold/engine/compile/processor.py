"""Tables of a PySpark `StatefulProcessor`, which gets its rows as a fold does.

Rows are parsed and keyed, ordered by event time and then arrival, and late ones go to the side output. Side
outputs pass through the same operator under a null key, around the processor: the source is read once.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.context import Context
from keyfold.engine.compile.python_worker import for_workers, wrap
from keyfold.engine.internal_columns import CHANGE_COLUMNS, OP, PREVIOUS, SEQUENCE, SIDE_OUTPUT, visible
from keyfold.engine.spark_errors import explain_errors
from keyfold.engine.spark_messages import plain
from keyfold.errors import BadExpression, BadOption
from keyfold.kernel.api import DeclaredRows
from keyfold.plan.nodes import ProcessSpec, TableSpec
from keyfold.plan.table_keys import SEQ, key_names
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def compile_processor(context: Context, spec: TableSpec, process: ProcessSpec) -> Compiled:
    """Compiles the table of a processor."""
    output = _output(context, process)
    declaration = context.rows(spec.input)
    _keys(context, declaration)
    rows, timed = context.end(declaration, "below"), declaration.hasEventTime()
    previous = context.upstream.is_retracted(spec.name)
    found = _run(context, rows, process, output, timed, previous)
    changes = context.frame(context.api.propagateWatermark(_changes(found, spec, process)._jdf))
    fields = json.loads(changes.schema.json())["fields"]
    shown = [f for f in fields if f["name"] not in CHANGE_COLUMNS]
    keys = len(key_names(spec))
    view = ViewSchema.from_spark(spec.name, keys, {"fields": shown}, spec.help, spec.private)
    meaning = {**context.meaning, **_meaning(spec, process, output, previous)}
    return Compiled(spec, changes, meaning, "null", view, timed, None, context.clocks)


def _output(context: Context, process: ProcessSpec) -> Any:
    """The declared output schema."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    where = context.where("output", process.site)
    try:
        schema: Any = StructType.fromDDL(process.output)
    except PySparkException as error:
        raise BadExpression(
            f"Spark can't parse the schema in output: {plain(str(error))}",
            where=where,
            given=process.output,
            hint='name and type of each column: "customer string, score double"',
        ) from None
    return schema


def _keys(context: Context, declaration: DeclaredRows) -> None:
    spec = context.spec
    for name, expression in spec.keys:
        context.at(f"key {name}", expression, spec.site, partial(declaration.key, name))
    declaration.requireKeys()


def _run(
    context: Context, rows: DataFrame, process: ProcessSpec, output: Any, timed: bool, previous: bool
) -> DataFrame:
    """The operator's rows: the output's columns, a sequence and the side output."""
    spec = context.spec
    keys = [name for name, _ in spec.keys]
    where = context.where("process", process.site)
    shown = visible(rows.columns)
    ordered = context.frame(context.api.sortByKeyAndTime(rows._jdf, keys)).select(
        *(f"`{c}`" for c in shown), SIDE_OUTPUT
    )
    own = _processor(process, where)
    before = _before(output, keys) if previous else None
    kept = before if process.mode == "update" else None
    if kept is not None:
        _refuse_unfit(context, kept, where)
    wrapped = wrap(own, shown, keys, output.names, kept)
    with explain_errors(context.spark, "process", where, _name(process)):
        found: DataFrame = ordered.groupBy(*(f"`{k}`" for k in keys)).transformWithState(
            statefulProcessor=wrapped,
            outputStructType=_with_own(output, before, rows.schema[SIDE_OUTPUT].dataType),
            outputMode="Append",
            timeMode="EventTime" if timed else "ProcessingTime",
            initialState=_initial(context, process, ordered, where),
        )
    return found


def _with_own(output: Any, before: Any | None, side: Any) -> Any:
    """The output's columns and keyfold's own; `side` is the type of the side output."""
    from pyspark.sql.types import LongType, StructType

    found = StructType(_nullable(output)).add(SEQUENCE, LongType())
    if before is not None:
        found = found.add(PREVIOUS, before)
    return found.add(SIDE_OUTPUT, side)


def _nullable(output: Any) -> list[Any]:
    # Side outputs have nulls in all columns, whatever the processor declares.
    return [type(f)(f.name, f.dataType, True) for f in output.fields]


def _before(output: Any, keys: list[str]) -> Any:
    """The old row of a change: its kind, and all columns but the key's."""
    from pyspark.sql.types import StringType, StructType

    own = {OP, *(key.lower() for key in keys)}
    was = StructType().add(OP, StringType())
    return StructType([*was, *(f for f in _nullable(output) if f.name.lower() not in own)])


def _refuse_unfit(context: Context, kept: Any, where: str) -> None:
    """Refuses columns that state can't keep, if the last row of a key must be kept."""
    unfit = list(context.api.unstorableColumns(kept.json()))
    if unfit:
        raise BadExpression(
            f"column {unfit[0]} can't be kept in state, which another table that reads this one needs",
            where=where,
            given=f"{unfit[0]} {kept[unfit[0]].dataType.simpleString()}",
            hint="convert it to a number or a string first",
        )


def _processor(process: ProcessSpec, where: str) -> Any:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    try:
        made = process.processor()
    except Exception as error:
        raise BadOption(
            f"the processor can't be created: {type(error).__name__}: {error}",
            where=where,
            given=_name(process),
        ) from error
    if not isinstance(made, StatefulProcessor):
        raise BadOption(
            "the processor is not a StatefulProcessor of PySpark",
            where=where,
            given=f"{_name(process)} returned {type(made).__name__}",
            hint="a class that extends pyspark.sql.streaming.StatefulProcessor",
        )
    for_workers(made)
    return made


def _initial(context: Context, process: ProcessSpec, rows: DataFrame, where: str) -> Any:
    """Rows that the state begins with: Spark asks for them in the first batch, and after that never again."""
    if process.initial is None or context.home is None or context.home.committed_batch() is not None:
        return None
    with explain_errors(context.spark, "initial", where, getattr(process.initial, "__name__", "initial")):
        found = process.initial(context.spark)
    keys = [name for name, _ in context.spec.keys]
    if not hasattr(found, "_jdf"):
        raise BadOption(
            "the function of initial must return a DataFrame", where=where, given=type(found).__name__
        )
    mine, theirs = dict(rows.dtypes), dict(found.dtypes)
    for key in keys:
        if theirs.get(key) != mine[key]:
            raise BadOption(
                f"key {key} is {mine[key]} in the stream, {theirs.get(key, 'missing')} in the initial state",
                where=where,
                given=", ".join(f"{n} {t}" for n, t in theirs.items()),
                hint=f"give the initial state a column {key} {mine[key]}",
            )
    return found.groupBy(*(f"`{k}`" for k in keys))


def _changes(found: DataFrame, spec: TableSpec, process: ProcessSpec) -> DataFrame:
    """The processor's output as changes: kind, keys, sequence, columns, old row, side output."""
    from pyspark.sql import functions as F

    by_name = {c.lower(): c for c in found.columns}
    keys = [by_name[name.lower()] for name, _ in spec.keys]
    op = F.coalesce(F.col(OP), F.lit("upsert")) if OP in found.columns else F.lit("upsert")
    seq = [F.col(SEQUENCE).alias(SEQ)] if process.mode == "append" else []
    rest = [c for c in found.columns if c not in (*keys, *CHANGE_COLUMNS, SEQUENCE)]
    previous = [c for c in found.columns if c == PREVIOUS]
    return found.select(
        op.alias(OP),
        *(F.col(f"`{c}`").alias(name) for c, (name, _) in zip(keys, spec.keys, strict=True)),
        *seq,
        *(f"`{c}`" for c in rest),
        *previous,
        SIDE_OUTPUT,
    )


def _meaning(spec: TableSpec, process: ProcessSpec, output: Any, previous: bool) -> dict[str, str]:
    """What the state depends on. The processor's own state is opaque; Spark compares its schemas."""
    return {
        "keys": ", ".join(name for name, _ in spec.keys),
        "process": _name(process),
        "output": ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in output.fields),
        "mode": process.mode,
        # The old row is known only of rows emitted since another table began to read this one.
        **({"read by tables": "yes"} if previous and process.mode == "update" else {}),
    }


def _name(process: ProcessSpec) -> str:
    """The processor's name without its module: an app's file may be moved, and is `__main__` when run."""
    return str(getattr(process.processor, "__qualname__", None) or type(process.processor).__qualname__)
