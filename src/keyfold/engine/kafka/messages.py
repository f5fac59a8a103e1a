"""A change as a message: key, value, headers; written by sinks, and read back by `keyfold.read_changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keyfold.engine.internal_columns import MESSAGE_KEY, MESSAGE_VALUE, OP, SIDE_OUTPUT
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
    return changes.select(OP, *(column.alias(name) for name, column in _columns(view).items()))


def message_columns(view: ViewSchema) -> dict[str, Column]:
    """The key and the value of each change's message, beside the change itself; none for side outputs."""
    from pyspark.sql import functions as F

    made = _columns(view)
    is_change = F.col(SIDE_OUTPUT).isNull()
    return {
        MESSAGE_KEY: F.when(is_change, made["key"]),
        MESSAGE_VALUE: F.when(is_change, made["value"]),
    }


def _columns(view: ViewSchema) -> dict[str, Column]:
    from pyspark.sql import functions as F

    keys = [column.name for column in view.keys]
    value = json_of([*keys, *(column.name for column in view.columns)])
    bare = bare_key(view)
    nothing = F.lit(None).cast("binary")
    return {
        "key": json_of(keys) if bare is None else F.col(f"`{bare}`").cast("binary"),
        "value": F.when(F.col(OP) == "delete", nothing).otherwise(value),
    }


def bare_key(view: ViewSchema) -> str | None:
    """The key's column, if it is a single string: then the key is that text, as other programs key topics.

    Any other key is a JSON object.
    """
    return view.keys[0].name if len(view.keys) == 1 and str(view.keys[0].type) == "string" else None


def json_of(names: list[str]) -> Column:
    """Columns as a JSON object; null stays, so that all rows have the same fields."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), _JSON).cast("binary")
