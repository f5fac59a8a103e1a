"""A table's changelog as a stream that other tables read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.compile.context import Context
from keyfold.engine.internal_columns import BATCH, OP, POSITION, PREVIOUS, ROW_ID, SIDE_OUTPUT, WEIGHT
from keyfold.engine.log.readers import Use
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import BadExpression
from keyfold.kernel.api import TableDeclaration, java_column
from keyfold.plan import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_OPTIONS: Final = {
    # Dates before 1582 are written as they are, whatever the session is set to.
    "datetimeRebaseMode": "CORRECTED",
}


def changelog(context: Context, node: nodes.Changes) -> TableDeclaration:
    """The changelog as a retracting stream: a row of weight 1, after the old row of weight -1.

    Both have the id of the table's row, by which the one is retracted whatever its columns were, and the
    order of the change. With `previous`, each change once, with its kind and the old row as a struct.
    """
    upstream = context.upstream[node.table]
    changes = change_stream(context, node)
    keys, columns = ([f"`{name}`" for name in names] for names in (upstream.keys, upstream.columns))
    if node.previous:
        old = f"if({PREVIOUS} is null, null, {_struct([(c, f'{PREVIOUS}.{c}') for c in columns])})"
        return context.begin(node, changes.selectExpr(*keys, *columns, OP, f"{old} as previous"))
    retraction = f"if({PREVIOUS} is null, null, {_weight_expression(keys, columns, f'{PREVIOUS}.', -1)})"
    row = f"if({OP} = 'delete', null, {_weight_expression(keys, columns, '', 1)})"
    each = f"explode(filter(array({retraction}, {row}), row -> row is not null)) as row"
    both = changes.selectExpr(BATCH, POSITION, each)
    return context.begin(node, both.select("row.*", _row_id(context, upstream.keys)))


def _row_id(context: Context, keys: Sequence[str]) -> Any:
    """The column that identifies the upstream row; the kernel has its type in RowId.scala."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    # Stages are numbered as they are compiled: two readings of a table have different numbers.
    values = [java_column(F.col(f"row.`{key}`")) for key in keys]
    row = Column(context.api.rowId(values, context.stages))
    change = F.expr(f"shiftleft({BATCH}, 32) + {POSITION}")
    return F.struct(row.alias("row"), change.alias("change")).alias(ROW_ID)


def _weight_expression(keys: Sequence[str], columns: Sequence[str], prefix: str, weight: int) -> str:
    fields = [(key, key) for key in keys] + [(c, prefix + c) for c in (*columns, f"`{OP}`")]
    return _struct([*fields, (f"`{WEIGHT}`", str(weight))])


def _struct(fields: Sequence[tuple[str, str]]) -> str:
    items = (f"'{name.strip('`')}', {value}" for name, value in fields)
    return f"named_struct({', '.join(items)})"


def change_stream(context: Context, node: nodes.Changes | nodes.Enrich) -> DataFrame:
    """The changes of the table that a node reads, with their order: batch, and position in it."""
    table = node.table
    where = context.where(f"changes of {table}", context.spec.site)
    schema = readable(context.upstream[table].schema, table, where)
    use = Use(context.spec.name, context.use_of(node), table)
    log, inputs = (None, None) if context.home is None else _directories(context.home, use)
    spark = context.spark._jsparkSession
    return context.frame(context.api.logChanges(spark, log, inputs, use.number, schema.json(), _OPTIONS))


def _directories(home: TableHome, use: Use) -> tuple[str, str]:
    """The log that a use reads, and the directory of the snapshot that its reader may begin with."""
    return home.app.table(use.table).log_url, use.directory(home).uri()


def readable(schema: StructType, table: str, where: object) -> StructType:
    """The schema with which Spark reads a table's changes."""
    from pyspark.sql.types import StructField, StructType

    months = [f.name for f in schema.fields if "interval year" in _type(f) or "interval month" in _type(f)]
    if months:
        raise BadExpression(
            f"column {months[0]} of {table} is an interval of months, which other tables can't read",
            where=where,
            given=f"{months[0]} {schema[months[0]].dataType.simpleString()}",
            hint=f"a number in {table}: cast({months[0]} as int)",
        )
    return StructType([StructField(f.name, f.dataType) for f in schema.fields if f.name != SIDE_OUTPUT])


def _type(field: Any) -> str:
    return str(field.dataType.simpleString())


def parquet_type(kind: DataType) -> DataType:
    """The type as Parquet has it, which has no type of a bare null and takes any for it."""
    from pyspark.sql import types as T

    if isinstance(kind, T.NullType):
        return T.ByteType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(parquet_type(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(parquet_type(kind.keyType), parquet_type(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, parquet_type(f.dataType)) for f in kind.fields])
    return kind
