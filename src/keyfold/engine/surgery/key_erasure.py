"""Removes a key from a table's state, in whichever form its operators store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import session
from keyfold.engine.log.key_text import as_text
from keyfold.engine.state import parts as state_parts
from keyfold.engine.state.join_keys import SIDES, JoinedKey
from keyfold.engine.state.join_rows import JoinRows
from keyfold.engine.state.table_rows import arrow_batches
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.kernel.api import JavaColumn, java_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BUCKET: Final = ["_pane"]
"""The key of operators whose keys share buckets: dedup and patterns."""
_ARRAYS: Final = ("keys", "rows")
"""Values of a bucket with entries of many keys: entries due at a time, and buffered rows."""


@dataclass(frozen=True)
class TableKey:
    """A key of a table: columns of it, with a value for each as text; or all keys with these values."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    declared: tuple[str, ...] = ()
    """All columns of the table's key, in order."""

    @property
    def columns(self) -> dict[str, str]:
        """The values by column."""
        return dict(zip(self.names, self.values, strict=True))

    @property
    def is_whole(self) -> bool:
        """Whether it is a single key, with a value for each column."""
        return len(self.names) >= len(self.declared)

    def same(self, row: Column, schema: Any) -> Column:
        """Whether a struct of the key's columns, and perhaps others, has these values."""
        from pyspark.sql import functions as F

        found = F.lit(True)
        for name, value in zip(self.names, self.values, strict=True):
            found = found & (row[name] == F.lit(value).try_cast(schema[name].dataType))
        # A value that the column does not have, and a null of the row, are treated as missing.
        return F.coalesce(found, F.lit(False))


def declared_key(home: AppHome, table: str) -> dict[str, str]:
    """The expressions of a table's key by column, as the app declares them; empty if unknown."""
    declared = home.read_plan().declared_tables.get(table)
    return {} if declared is None else dict(declared["key"])


def key_of(home: AppHome, table: str, values: Sequence[str], *, some: bool = False) -> TableKey:
    """The key of a table with these values, one for each declared column.

    `some`: or all keys whose first columns have these values.
    """
    names = tuple(declared_key(home, table))
    if not names:
        raise BadOption(
            f"app.json does not say what the key of {home.path.name}.{table} is",
            given=table,
            hint="start the app once with this version of keyfold",
        )
    if not values or len(values) > len(names) or (len(values) < len(names) and not some):
        more = ", or for the first ones, to erase all keys that start so" if some and len(names) > 1 else ""
        raise BadOption(
            f"the key of {home.path.name}.{table} is {', '.join(names)}",
            given=", ".join(values) or "nothing",
            hint=f"a value for each{more}; windows of the key go with it",
        )
    return TableKey(names[: len(values)], tuple(values), names)


def kernel_column(found: JavaColumn) -> Column:
    """A column made by the kernel, for PySpark."""
    from pyspark.sql.classic.column import Column as Classic

    return Classic(found)


class KeyErasure:
    """Removes a key from all rows of a state; `upstream`: also from operators that feed the table.

    An operator without columns of the key's names can't be searched: `unreached` names it. `joined`: the key
    in the rows of a join of two streams.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        batch: int,
        key: TableKey,
        *,
        upstream: bool,
        joined: JoinedKey | None = None,
    ) -> None:
        self._spark, self._checkpoint, self._batch = spark, checkpoint, batch
        self._key, self._upstream, self._joined = key, upstream, joined
        self._parts = state_parts.parts(spark, checkpoint, batch)
        self.unreached: list[str] = []

    def __call__(self, operator: int, rows: DataFrame) -> DataFrame:
        """The rows of an operator's state without the key."""
        from pyspark.sql import functions as F

        if operator > 0 and not self._upstream:
            return rows
        if any(part.operator == operator and part.kind == "join" for part in self._parts):
            return self._without_joined(rows, operator)
        schema: Any = rows.schema["partition_key"].dataType
        if set(self._key.names) <= set(schema.names):
            return rows.where(~self._key.same(F.col("partition_key"), schema))
        if schema.names == _BUCKET:
            for part in self._parts:
                if part.operator == operator and part.kind == "MapState":
                    rows = self._without(rows, part.variable, operator)
            return rows
        self.unreached.append(f"operator {operator}, by {', '.join(schema.names)}")
        return rows

    def keys(self) -> set[tuple[str, ...]]:
        """The keys of the table's own state that are about to be removed, as text."""
        from pyspark.sql import functions as F

        found: set[tuple[str, ...]] = set()
        for part in self._parts:
            frame = state_parts.rows(self._spark, self._checkpoint, self._batch, part).frame
            if part.operator == 0 and set(self._key.declared) <= set(frame.columns):
                columns = [F.col(f"`{name}`") for name in self._key.declared]
                mine = frame.select(*columns).distinct()
                mine = mine.where(self._key.same(F.struct(*columns), mine.schema))
                for batch in arrow_batches(mine):
                    found |= {tuple(map(as_text, row.values())) for row in batch.to_pylist()}
        return found

    def _without_joined(self, rows: DataFrame, operator: int) -> DataFrame:
        found = JoinRows(self._spark, self._checkpoint, self._batch, operator)
        columns = found.columns()
        for side in SIDES:
            own = None if self._joined is None else self._joined.on_side(side, columns)
            if own is None:
                self.unreached.append(f"operator {operator}, the rows of the {side} side of a join")
            else:
                rows = found.without(rows, side, TableKey(tuple(own), tuple(own.values())).same)
        return found.with_index(rows)

    def _without(self, rows: DataFrame, variable: str, operator: int) -> DataFrame:
        """The rows without entries of a map that belong to the key, or contain it among others."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructField, StructType

        found = self._schema(variable, operator)
        entry: Any = found["user_map_key"].dataType
        mine = F.col("column_family_name") == variable
        if set(self._key.names) <= set(entry.names):
            whole = StructType([StructField("key", found["key"].dataType), StructField("userKey", entry)])
            decoded = self._decode("key_bytes", whole)["userKey"]
            return rows.where(~F.when(mine, self._key.same(decoded, entry)).otherwise(False))
        value: Any = found["user_map_value"].dataType
        array = next((name for name in value.names if name in _ARRAYS), None)
        if array is None:
            return rows
        kept = self._keep_others(self._decode("value_bytes", value), value, array)
        if kept is None:
            self.unreached.append(f"{variable} of operator {operator}")
            return rows
        return rows.withColumn("value_bytes", F.when(mine, kept).otherwise(F.col("value_bytes")))

    def _keep_others(self, decoded: Column, value: Any, array: str) -> Column | None:
        """A value, in bytes, whose array has no entries of the key."""
        from pyspark.sql import functions as F

        element = value[array].dataType.elementType
        nested = "key" if array == "rows" else None
        schema = element["key"].dataType if nested and "key" in element.names else element
        if not set(self._key.names) <= set(schema.names):
            return None
        left = F.filter(decoded[array], lambda e: ~self._key.same(e[nested] if nested else e, schema))
        fields = [(left if name == array else decoded[name]).alias(name) for name in value.names]
        return kernel_column(session.kernel(self._spark).bytesOfRow(java_column(F.struct(*fields))))

    def _decode(self, column: str, schema: Any) -> Column:
        from pyspark.sql import functions as F

        bytes_: Any = F.col(column)
        return kernel_column(session.kernel(self._spark).rowFromBytes(bytes_._jc, schema.json()))

    def _schema(self, variable: str, operator: int) -> Any:
        source = self._spark.read.format("statestore").option("path", self._checkpoint)
        read = source.option("batchId", self._batch).option("operatorId", operator)
        return read.option("stateVarName", variable).load().schema
