"""Streams that begin with a table, or meet one: its changes; rows with the row that it has for their key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.engine.log import chain
from keyfold.errors import BadExpression
from keyfold.plan import nodes
from keyfold.plan.nodes import AppSpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from keyfold.engine.compile.context import Context


@dataclass(frozen=True)
class Shape:
    """What tables that read a table see of it: the columns of its changes, and which of them are its key."""

    schema: StructType
    keys: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns beside the key."""
        return [n for n in self.schema.names[1 + len(self.keys) :] if not n.startswith("_kf_")]


@dataclass(frozen=True)
class Upstream:
    """The tables of an app that were compiled so far."""

    app: AppSpec
    shapes: dict[str, Shape]

    def __getitem__(self, table: str) -> Shape:
        if table not in self.shapes:
            raise BadExpression(f"{table}, which this table reads, can't be compiled", where=self.app.name)
        return self.shapes[table]

    def table(self, name: str) -> TableSpec:
        """The declaration of a table."""
        return next(table for table in self.app.tables if table.name == name)

    def taken_back(self, table: str) -> bool:
        """Whether a table's changes must say what its rows were before."""
        read = (node for other in self.app.tables for node in nodes.reads(other.input))
        return any(isinstance(node, nodes.Changes) and node.table == table for node in read)


def changed(context: Context, node: nodes.Changes) -> Any:
    """A table's rows as they change: each a row of weight 1, and before it what it was, of weight -1."""
    shape = context.upstream[node.table]
    frame = chain.frame(context, node.table, _use(context, node))
    keys, columns = ([f"`{name}`" for name in names] for names in (shape.keys, shape.columns))
    if node.previous:
        before = _struct(columns, "_kf_prev.")
        return context.begin(
            node,
            frame.selectExpr(*keys, *columns, "_op", f"if(_kf_prev is null, null, {before}) as previous"),
        )
    was = f"if(_kf_prev is null, null, {_struct(keys, '', columns, '_kf_prev.', -1)})"
    now = f"if(_op = 'delete', null, {_struct(keys, '', columns, '', 1)})"
    rows = frame.selectExpr(f"explode(filter(array({was}, {now}), row -> row is not null)) as row")
    return context.begin(node, rows.selectExpr("row.*"))


def _struct(
    names: Sequence[str], of: str, more: Sequence[str] = (), more_of: str = "", weight: int = 0
) -> str:
    fields = [(n, of + n) for n in names] + [(n, more_of + n) for n in more]
    if weight:
        fields += [("`_op`", more_of + "`_op`"), ("`_kf_weight`", str(weight))]
    return f"named_struct({', '.join(f'{_text(name)}, {value}' for name, value in fields)})"


def _text(quoted: str) -> str:
    return f"'{quoted.strip('`')}'"


def enriched(context: Context, node: nodes.Enrich) -> Any:
    """Rows of a stream with the row that a table has for their key; both sides go to one state by the key."""
    as_of_event = node.as_of == "event"
    rows = context.end(context.rows(node.input), "below" if as_of_event else "")
    shape = context.upstream[node.table]
    if as_of_event:
        return _as_of_event(context, node, rows, shape)
    values = chain.frame(context, node.table, _use(context, node))
    own = [n for n in rows.columns if not n.startswith("_kf_") and n != "_op"]
    on = [_found(context, node, name, own) for name in node.on]
    _same_types(context, node, rows, on, shape)
    timed, follow = "_kf_time" in rows.columns, node.on_update or "_kf_weight" in rows.columns
    both = _rows_side(rows, on, own, shape).unionByName(_values_side(values, rows, own, shape))
    met = context.api.enrich(
        both._jdf,
        len(on),
        node.how in ("left", "full"),
        node.how in ("right", "full"),
        -1 if node.wait_ms is None else node.wait_ms,
        follow,
        -1 if node.keep_ms is None else node.keep_ms,
        timed,
        own + _others(context, node, own, shape.columns),
        [own.index(name) for name in on],
    )
    return context.begin(node, context.frame(met))


def _as_of_event(context: Context, node: nodes.Enrich, rows: DataFrame, shape: Shape) -> Any:
    """The table's own rows are folded beside the stream's, into versions by event time."""
    from pyspark.sql import functions as F

    own = [n for n in rows.columns if not n.startswith("_kf_")]
    on = [_found(context, node, name, own) for name in node.on]
    _same_types(context, node, rows, on, shape)
    good = F.col("_kf_bad").isNull()
    asking = rows.select(
        *(F.when(good, _plain(rows, name)).alias(f"k{i}") for i, name in enumerate(on)),
        F.struct(*(F.col(f"`{name}`") for name in own)).alias("row"),
        F.col("_kf_time"),
        F.col("_kf_bad"),
    )
    table = context.upstream.table(node.table)
    met = context.declared(table).enrichAsOf(
        asking._jdf,
        node.how == "left",
        -1 if node.wait_ms is None else node.wait_ms,
        table.ttl_ms or 0,
        own + _others(context, node, own, shape.columns),
    )
    return context.begin(node, context.frame(met))


def _use(context: Context, node: nodes.Changes | nodes.Enrich) -> int:
    """Which reading of another table this is; one node that stands in several places is as many."""
    places = [i for i, n in enumerate(nodes.reads(context.spec.input)) if n is node]
    context.taken[id(node)] += 1
    return places[(context.taken[id(node)] - 1) % len(places)]


def _rows_side(rows: DataFrame, on: list[str], own: list[str], shape: Shape) -> DataFrame:
    from pyspark.sql import functions as F

    timed, weighed = "_kf_time" in rows.columns, "_kf_weight" in rows.columns
    good = F.col("_kf_bad").isNull()
    return rows.select(
        # A row that was set aside goes through under no key.
        *(F.when(good, _plain(rows, name)).alias(f"k{i}") for i, name in enumerate(on)),
        F.struct(*(F.col(f"`{name}`") for name in own)).alias("row"),
        F.lit(None).cast(_value_type(shape)).alias("value"),
        F.lit(0).alias("side"),
        (F.col("_kf_time") if timed else F.lit(None).cast("timestamp")).alias("time"),
        F.lit(0).cast("bigint").alias("order"),
        (F.col("_kf_weight") if weighed else F.lit(1)).alias("weight"),
        F.col("_kf_bad").alias("bad"),
    )


def _values_side(values: DataFrame, rows: DataFrame, own: list[str], shape: Shape) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    row = StructType([rows.schema[name] for name in own])
    return values.select(
        *(F.col(f"`{name}`").alias(f"k{i}") for i, name in enumerate(shape.keys)),
        F.lit(None).cast(row).alias("row"),
        F.struct(*(F.col(f"`{name}`") for name in shape.columns)).cast(_value_type(shape)).alias("value"),
        F.when(F.col("_op") == "delete", 2).otherwise(1).alias("side"),
        F.lit(None).cast("timestamp").alias("time"),
        F.expr("shiftleft(_kf_batch, 32) + _kf_row").alias("order"),
        F.lit(1).alias("weight"),
        F.lit(None).cast("string").alias("bad"),
    )


def _value_type(shape: Shape) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([shape.schema[name] for name in shape.columns])


def _plain(rows: DataFrame, name: str) -> Any:
    """A key column as the table's keys are: 0.0 and -0.0 are one."""
    from pyspark.sql import functions as F

    column = F.col(f"`{name}`")
    return column + F.lit(0.0) if dict(rows.dtypes)[name] in ("float", "double") else column


def _found(context: Context, node: nodes.Enrich, name: str, own: list[str]) -> str:
    from keyfold.errors import did_you_mean

    for column in own:
        if column.lower() == name.lower():
            return column
    raise BadExpression(
        f"the stream has no column {name} to meet {node.table} by",
        where=context.where("enrich", node.site),
        given=f"on={name!r}",
        hint=did_you_mean(name, own),
    )


def _same_types(context: Context, node: nodes.Enrich, rows: DataFrame, on: list[str], shape: Shape) -> None:
    for name, key in zip(on, shape.keys, strict=True):
        mine, theirs = (s[n].dataType.simpleString() for s, n in ((rows.schema, name), (shape.schema, key)))
        if mine != theirs:
            raise BadExpression(
                f"column {name} and the key {key} of {node.table} have other types",
                where=context.where("enrich", node.site),
                given=f"{name} {mine}, {key} {theirs}",
                hint=f'cast it: .select("*", key="cast({name} as {theirs})") and on="key"; or cast the key '
                f"of {node.table} where it is declared",
            )


def _others(context: Context, node: nodes.Enrich, own: list[str], columns: list[str]) -> list[str]:
    """What the table's columns are called beside the stream's."""
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
