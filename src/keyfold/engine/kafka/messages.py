"""A change as a message: key, value, headers; written by sinks, and read back by `keyfold.read_changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Spark's default would cut microseconds off.
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


def encoded(changes: DataFrame, view: ViewSchema) -> DataFrame:
    """Changes as `_op`, `key` and `value`; tasks do the work. A delete has no value."""
    from pyspark.sql import functions as F

    keys = [column.name for column in view.keys]
    value = json_of([*keys, *(column.name for column in view.columns)])
    bare = bare_key(view)
    key = json_of(keys) if bare is None else F.col(f"`{bare}`").cast("binary")
    nothing = F.lit(None).cast("binary")
    return changes.select(
        "_op",
        key.alias("key"),
        F.when(F.col("_op") == "delete", nothing).otherwise(value).alias("value"),
    )


def bare_key(view: ViewSchema) -> str | None:
    """The key's column, if it is a single string: then the key is that text, as other programs key topics.

    Any other key is a JSON object.
    """
    return view.keys[0].name if len(view.keys) == 1 and str(view.keys[0].type) == "string" else None


def json_of(names: list[str]) -> Column:
    """Columns as a JSON object; null stays, so that all rows have the same fields."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), _JSON).cast("binary")
