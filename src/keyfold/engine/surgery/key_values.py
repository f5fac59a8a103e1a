"""Sets columns of one key's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.state.parts import MAIN
from keyfold.engine.state.table_rows import arrow_batches
from keyfold.engine.surgery.key_erasure import TableKey, kernel_column
from keyfold.errors import BadOption, did_you_mean
from keyfold.kernel.api import java_column
from keyfold.plan.nodes import AggregateSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from keyfold.engine.compile.compiled import Compiled


class KeyValues:
    """Sets columns of the state of a key; for tables that keep one row of state per key."""

    def __init__(
        self, spark: SparkSession, checkpoint: str, batch: int, key: TableKey, columns: Mapping[str, str]
    ) -> None:
        self._spark, self._key, self._columns = spark, key, columns
        self._value: Any = self._state(checkpoint, batch).schema["value"].dataType

    def require_possible(self, compiled: Compiled) -> None:
        """Refuses tables that pack several rows into a key's state, and unknown columns."""
        spec = compiled.spec
        running = isinstance(spec.body, AggregateSpec) and spec.body.window is None
        if not running or compiled.rebuilt is None:
            raise BadOption(
                f"{compiled.name} keeps more than one row of columns per key, which can't be put",
                given=", ".join(self._columns),
                hint="keyfold state delete removes the key; tables of running aggregates can be put",
            )
        for name, text in self._columns.items():
            if name not in self._value.names:
                raise BadOption(
                    f"the state of {compiled.name} has no column {name}",
                    given=name,
                    hint=did_you_mean(name, self._value.names, f"one of {', '.join(self._value.names)}"),
                )
            self._require_value(name, text)

    def _require_value(self, name: str, text: str) -> None:
        from pyspark.sql import functions as F

        kind = self._value[name].dataType
        if kind.typeName() in ("binary", "struct", "array", "map"):
            raise BadOption(
                f"column {name} is a buffer that only Spark can interpret, which can't be put",
                given=f"{name}={text}",
                hint="columns of numbers, text and times can",
            )
        found = self._spark.range(1).select(F.lit(text).try_cast(kind).isNull().alias("bad")).collect()
        if found[0]["bad"] and text != "null":
            raise BadOption(f"column {name} is {kind.simpleString()}", given=f"{name}={text}")

    def __call__(self, operator: int, rows: DataFrame) -> DataFrame:
        """The rows of an operator's state, with the columns of the key changed."""
        from pyspark.sql import functions as F

        if operator != 0:
            return rows
        schema = rows.schema["partition_key"].dataType
        own = (F.col("column_family_name") == MAIN) & self._key.same(F.col("partition_key"), schema)
        kernel, bytes_ = session.kernel(self._spark), F.col("value_bytes")
        decoded = kernel_column(kernel.rowFromBytes(java_column(bytes_), self._value.json()))
        fields = [self._field(decoded, field).alias(field.name) for field in self._value.fields]
        changed = kernel_column(kernel.bytesOfRow(java_column(F.struct(*fields))))
        return rows.withColumn("value_bytes", F.when(own, changed).otherwise(bytes_))

    def _field(self, decoded: Column, field: Any) -> Column:
        from pyspark.sql import functions as F

        if field.name not in self._columns:
            return decoded[field.name]
        text = self._columns[field.name]
        return F.lit(None if text == "null" else text).cast(field.dataType)

    def rows(self, compiled: Compiled, checkpoint: str, batch: int) -> list[dict[str, Any]]:
        """The table's rows of the key, as computed from its state."""
        from pyspark.sql import functions as F

        state = self._state(checkpoint, batch)
        own = state.where(self._key.same(F.col("key"), state.schema["key"].dataType))
        assert compiled.rebuilt is not None
        columns = [*compiled.view.keys, *compiled.view.columns]
        found: list[dict[str, Any]] = []
        for batch_ in arrow_batches(compiled.rebuilt(own, False)):
            decoded = [one.type.python_values(batch_.column(one.name)) for one in columns]
            names = [one.name for one in columns]
            found += [dict(zip(names, values, strict=True)) for values in zip(*decoded, strict=True)]
        return found

    def _state(self, checkpoint: str, batch: int) -> DataFrame:
        source = self._spark.read.format("statestore").option("path", checkpoint)
        return source.option("batchId", batch).option("stateVarName", MAIN).load()
