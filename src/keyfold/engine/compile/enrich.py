"""Enrichment: the rows of a stream joined with the row that a table has for their key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from keyfold.engine.compile import keyed_state
from keyfold.engine.compile.changelog_source import change_stream
from keyfold.engine.compile.context import Context
from keyfold.engine.compile.upstream import ChangeSchema
from keyfold.engine.internal_columns import BATCH, OP, POSITION, ROW_ID, SIDE_OUTPUT, TIME, WEIGHT, visible
from keyfold.errors import BadExpression, did_you_mean
from keyfold.kernel.api import TableDeclaration
from keyfold.plan import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

STREAM_ROW, TABLE_VALUE, DELETED_VALUE = 0, 1, 2
"""The kernel's marks (EnrichLayout.scala) of a stream row, a table's new value and its deleted value."""


def compile_enrich(context: Context, node: nodes.Enrich) -> TableDeclaration:
    """The joined stream; the stream's rows and the table's values share one state per key."""
    if node.as_of == "event":
        return _as_of_event_time(context, node)
    rows = context.end(context.rows(node.input))
    table = context.upstream[node.table]
    values = change_stream(context, node)
    own = [name for name in visible(rows.columns) if name != OP]
    on = _key_columns(context, node, rows, own, table)
    timed, retracting = TIME in rows.columns, WEIGHT in rows.columns
    both = _stream_side(rows, on, own, table).unionByName(_table_side(values, rows, own, table))
    declaration = {
        "keys": len(on),
        "keepRows": node.how in ("left", "full"),
        "keepValues": node.how in ("right", "full"),
        "waitMs": node.wait_ms,
        "follow": node.on_update or retracting,
        "keepMs": node.keep_ms,
        "timed": timed,
        "names": own + _table_names(context, node, own, table.columns),
        "on": [own.index(name) for name in on],
    }
    joined = context.api.enrich(both._jdf, json.dumps(declaration))
    return context.begin(node, context.frame(joined))


def _as_of_event_time(context: Context, node: nodes.Enrich) -> TableDeclaration:
    """The table's own rows are folded beside the stream's, into versions by event time."""
    from pyspark.sql import functions as F

    rows = context.end(context.rows(node.input), "below")
    table = context.upstream[node.table]
    own = visible(rows.columns)
    on = _key_columns(context, node, rows, own, table)
    stream = rows.select(*_keys(rows, on), _struct(own).alias("row"), F.col(TIME), F.col(SIDE_OUTPUT))
    spec = context.upstream.table(node.table)
    joined = keyed_state.declare_table(context, spec).enrichAsOf(
        stream._jdf,
        node.how == "left",
        node.wait_ms,
        own + _table_names(context, node, own, table.columns),
    )
    return context.begin(node, context.frame(joined))


def _stream_side(rows: DataFrame, on: list[str], own: list[str], table: ChangeSchema) -> DataFrame:
    from pyspark.sql import functions as F

    timed, weighted = TIME in rows.columns, WEIGHT in rows.columns
    return rows.select(
        *_keys(rows, on),
        _struct(_buffered_columns(rows, own)).alias("row"),
        F.lit(None).cast(_value_type(table)).alias("value"),
        F.lit(STREAM_ROW).alias("side"),
        (F.col(TIME) if timed else F.lit(None).cast("timestamp")).alias("time"),
        F.lit(0).cast("bigint").alias("order"),
        (F.col(WEIGHT) if weighted else F.lit(1)).alias("weight"),
        F.col(SIDE_OUTPUT).alias("side_output"),
    )


def _table_side(values: DataFrame, rows: DataFrame, own: list[str], table: ChangeSchema) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    row = StructType([rows.schema[name] for name in _buffered_columns(rows, own)])
    return values.select(
        *(F.col(f"`{name}`").alias(f"k{i}") for i, name in enumerate(table.keys)),
        F.lit(None).cast(row).alias("row"),
        _struct(table.columns).cast(_value_type(table)).alias("value"),
        F.when(F.col(OP) == "delete", DELETED_VALUE).otherwise(TABLE_VALUE).alias("side"),
        F.lit(None).cast("timestamp").alias("time"),
        F.expr(f"shiftleft({BATCH}, 32) + {POSITION}").alias("order"),
        F.lit(1).alias("weight"),
        F.lit(None).cast(rows.schema[SIDE_OUTPUT].dataType).alias("side_output"),
    )


def _buffered_columns(rows: DataFrame, own: list[str]) -> list[str]:
    """What the kernel buffers of a row: the user's columns and, in a retracting stream, the row's id."""
    return [*own, *(name for name in rows.columns if name == ROW_ID)]


def _keys(rows: DataFrame, on: list[str]) -> list[Any]:
    """The key columns `k0`, `k1`, ...; null for rows of the side output, which pass through under no key."""
    from pyspark.sql import functions as F

    usable = F.col(SIDE_OUTPUT).isNull()
    return [F.when(usable, _normalize(rows, name)).alias(f"k{i}") for i, name in enumerate(on)]


def _normalize(rows: DataFrame, name: str) -> Any:
    """A key column as tables' keys are: 0.0 and -0.0 are one key."""
    from pyspark.sql import functions as F

    column = F.col(f"`{name}`")
    return column + F.lit(0.0) if dict(rows.dtypes)[name] in ("float", "double") else column


def _struct(names: list[str]) -> Any:
    from pyspark.sql import functions as F

    return F.struct(*(F.col(f"`{name}`") for name in names))


def _value_type(table: ChangeSchema) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([table.schema[name] for name in table.columns])


def _key_columns(
    context: Context, node: nodes.Enrich, rows: DataFrame, own: list[str], table: ChangeSchema
) -> list[str]:
    """The stream's columns of `on`, which must have the types of the table's key."""
    on = [_column(context, node, name, own) for name in node.on]
    for name, key in zip(on, table.keys, strict=True):
        mine, theirs = (s[n].dataType.simpleString() for s, n in ((rows.schema, name), (table.schema, key)))
        if mine != theirs:
            raise BadExpression(
                f"column {name} and the key {key} of {node.table} have different types",
                where=context.where("enrich", node.site),
                given=f"{name} {mine}, {key} {theirs}",
                hint=f'cast it: .select("*", key="cast({name} as {theirs})") and on="key"; or cast the key '
                f"of {node.table} where it is declared",
            )
    return on


def _column(context: Context, node: nodes.Enrich, name: str, own: list[str]) -> str:
    for column in own:
        if column.lower() == name.lower():
            return column
    raise BadExpression(
        f"the stream has no column {name} to join {node.table} on",
        where=context.where("enrich", node.site),
        given=f"on={name!r}",
        hint=did_you_mean(name, own),
    )


def _table_names(context: Context, node: nodes.Enrich, own: list[str], columns: list[str]) -> list[str]:
    """The names of the table's columns in the joined row."""
    taken = {name.lower() for name in own}
    names = [f"{node.table}_{c}" if c.lower() in taken else c for c in columns]
    for name, column in zip(names, columns, strict=True):
        if name.lower() in taken:
            raise BadExpression(
                f"two columns would be called {name}",
                where=context.where("enrich", node.site),
                given=f"{column} of {node.table}, and {name} of the stream",
                hint="give one of them another name with select(...)",
            )
    return names
