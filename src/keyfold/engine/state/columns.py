"""State as Spark's reader gives it, turned into columns by name: packed rows and windows are unpacked.

The layouts are those of the kernel's processors (`StatePacking`, `KeptWindows`, `PatternStateLayout` and
others in Scala); a processor of the user's has the columns that it declares.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import ROW_ID, visible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BUCKET: Final = "_pane"
_PACKED: Final = ("open", "rows", "panes", "keys", "versions", "times")
"""Fields with several rows of a key, of which a value has at most one."""
_NAMES: Final = {"_start": "pane_start", "_end": "window_end", "_left": "rows_left", ROW_ID: "row_id"}
_NAMES_OF_TIMES: Final = {"_seen": "last_seen", "_newest": "time", "seen": "last_seen", "tick": "at"}
_MICROS: Final = {"_start", "_end", "_newest", "closed", "time", "start", "end", "from", "due"}
_MILLIS: Final = {"_seen", "seen", "tick", "timer"}
_STRUCTS: Final = ("state", "row", "key")
_HIDDEN: Final = {"mask"}
"""The conditions of a pattern that a buffered row satisfies, as bits."""
_FIRST: Final = -62_135_596_800_000_000
"""The first moment that Python can represent, in microseconds; earlier values mean never."""


def unpack(read: DataFrame, by_processor: bool) -> DataFrame:
    """Columns by name; `by_processor`: the state of a user's processor, which is not packed."""
    from pyspark.sql import functions as F

    frame = read.select(*_columns(read))
    names = frame.columns
    if by_processor:
        return frame
    if {"nodes", "matches", "row_ids"} <= set(names):
        return _partial_matches(frame)
    packed = next((name for name in _PACKED if name in names and _is_packed(frame, name)), None)
    own = set(keys(read))
    if packed is None:
        return _display_columns(frame, own)
    if packed == "open" and frame.schema[packed].dataType.typeName() == "struct":
        frame = frame.withColumn(packed, _zip_windows(frame))
    if packed == "rows" and "tick" in names:
        # Where a chunk of buffered rows starts.
        names.remove("tick")
    single = frame.schema[packed].dataType.elementType.typeName() != "struct"  # type: ignore[attr-defined]
    others = [F.col(f"`{name}`") for name in names if name != packed]
    if single:
        return _display_columns(frame.select(*others, F.explode(packed).alias(packed.removesuffix("s"))), own)
    each = frame.select(*others, F.explode(packed).alias("_one"))
    nested = [
        F.col(f"_one.`{name}`").alias(name)
        for name in _fields(each, "_one")
        if name not in {*names, *_HIDDEN}
    ]
    if "_newest" in _fields(each, "_one"):
        # Retained rows have the user's columns beside their time.
        own |= {name for name in _fields(each, "_one") if not name.startswith("_")}
    return _display_columns(each.select(*others, *nested), own)


def keys(read: DataFrame) -> tuple[str, ...]:
    """The columns of the key; in a bucket that keys share, those of each entry."""
    own = [name for name in _fields(read, "key") if name != _BUCKET]
    if own or "user_map_key" not in read.columns:
        return tuple(own)
    entry = _fields(read, "user_map_key")
    # Rows of many keys by time.
    return () if entry == ["tick"] else tuple(entry)


def of_join(read: DataFrame) -> DataFrame:
    """The rows of one side of a join: Spark's key for them has no names, and repeats their columns."""
    from pyspark.sql import functions as F

    names = visible(_fields(read, "value"))
    return read.select(*(F.col(f"value.`{name}`").alias(name) for name in names))


def _columns(read: DataFrame) -> Iterator[Column]:
    """The fields of the key, then those of the value, without the bucket that keys share for timers."""
    from pyspark.sql import functions as F

    taken: set[str] = set()
    for part in ("key", "user_map_key", "value", "user_map_value", "list_element"):
        for name in _fields(read, part) if part in read.columns else ():
            if name != _BUCKET:
                shown = name if name not in taken else f"value_{name}"
                taken.add(shown)
                yield F.col(f"{part}.`{name}`").alias(shown)
    if "expiration_timestamp_ms" in read.columns:
        yield F.timestamp_millis("expiration_timestamp_ms").alias("at")


def _fields(frame: DataFrame, column: str) -> list[str]:
    return list(frame.schema[column].dataType.names)  # type: ignore[attr-defined]


def _is_packed(frame: DataFrame, name: str) -> bool:
    kind = frame.schema[name].dataType.typeName()
    return kind == "array" or (name == "open" and kind == "struct")


def _zip_windows(frame: DataFrame) -> Column:
    """Windows stored as an array per field, with differences of starts, as an array of windows."""
    from pyspark.sql import functions as F

    arrays = {name: F.col(f"open.`{name}`") for name in _fields(frame, "open")}
    starts = arrays["_start"]

    def at(index: Any) -> Column:
        until = F.aggregate(F.slice(starts, 1, index), F.lit(0).cast("long"), lambda a, b: a + b)
        values = {**{name: F.get(array, index - 1) for name, array in arrays.items()}, "_start": until}
        return F.struct(*(value.alias(name) for name, value in values.items()))

    # A sequence from 1 to 0 would count down.
    found = F.transform(F.sequence(F.lit(1), F.greatest(F.size(starts), F.lit(1))), at)
    return F.slice(found, 1, F.size(starts))


def _partial_matches(frame: DataFrame) -> DataFrame:
    """A row for each partial match: its position, and the rows it has matched, oldest first.

    A node is three numbers: its row, its position in the pattern, and the previous node. A match is four: its
    position, or a negative number for how it ended, then one that is not used here, its last node, and its
    first row.
    """
    from pyspark.sql import functions as F

    own = [name for name in frame.columns if name not in _PATTERN]
    number = F.sequence(F.lit(0), (F.size("matches") / 4).cast("int") - 1)
    each = frame.where(F.size("matches") > 0).withColumn("_at", F.explode(number))

    def of(field: int) -> Column:
        return F.get("matches", F.col("_at") * 4 + field)

    def back(state: Column, _: Column) -> Column:
        node = state["node"]
        ended = node < 0
        path = F.when(ended, state["path"]).otherwise(F.concat(F.array(node), state["path"]))
        before = F.when(ended, node).otherwise(F.get("nodes", node * 3 + 2))
        return F.struct(before.alias("node"), path.alias("path"))

    begin = F.struct(of(2).cast("int").alias("node"), F.array().cast("array<int>").alias("path"))
    path = F.aggregate(F.col("nodes"), begin, back)["path"]

    def match_rows(node: Column) -> Column:
        row = F.get("nodes", node * 3)
        at = F.timestamp_micros(F.get("times", row)).alias("time")
        position = F.get("nodes", node * 3 + 1).alias("position")
        return F.struct(position, at, F.get("rows", row).alias("row"))

    ended = F.when(of(0) == -1, "complete").when(of(0) == -2, "timed out").otherwise("partial")
    columns = {
        "match": ended,
        "position": F.when(of(0) >= 0, of(0).cast("int")),
        "started": F.timestamp_micros(F.get("times", of(3).cast("int"))),
        "rows": F.transform(path, match_rows),
        "due": F.timestamp_millis("timer"),
    }
    return each.select(*own, *(value.alias(name) for name, value in columns.items()))


_PATTERN: Final = {"timer", "rows", "times", "row_ids", "nodes", "matches", "shown"}


def _display_columns(frame: DataFrame, own: set[str]) -> DataFrame:
    """Structs as their fields, names without an underscore before them, moments as timestamps, no bytes.

    `own`: columns of the user's, which are shown as they are.
    """
    from pyspark.sql import functions as F

    nested = {
        name for struct in _STRUCTS if struct in frame.columns for name in _nested_columns(frame, struct)
    }
    flat = frame.select(*_flatten(frame))
    if "_end" in flat.columns:
        # A session has bounds of its own; other windows are computed from panes.
        flat = flat.withColumnRenamed("_start", "start")
    own = {name for name in own | (nested - set(frame.columns)) if not name.startswith("_")}
    columns = []
    for field in flat.schema.fields:
        name, column = field.name, F.col(f"`{field.name}`")
        if name in own and field.dataType.typeName() != "binary":
            columns.append(column)
        else:
            columns.append(_moment(name, field.dataType.typeName(), column).alias(_name(name)))
    return flat.select(*columns)


def _nested_columns(frame: DataFrame, name: str) -> list[str]:
    return _fields(frame, name) if frame.schema[name].dataType.typeName() == "struct" else []


def _flatten(frame: DataFrame) -> Iterator[Column]:
    """Columns, and the fields of those that are structs; of equal names the first."""
    from pyspark.sql import functions as F

    taken = {name for name in frame.columns if name not in _STRUCTS}
    for field in frame.schema.fields:
        name = field.name
        if field.dataType.typeName() != "struct" or name not in _STRUCTS:
            yield F.col(f"`{name}`")
            continue
        for nested in _fields(frame, name):
            if nested not in taken:
                taken.add(nested)
                yield F.col(f"{name}.`{nested}`").alias(nested)


def _name(name: str) -> str:
    if name.startswith("_order") and name[6:].isdecimal():
        return f"order_{int(name[6:]) + 1}"
    if name in ("start", "end"):
        return f"window_{name}"
    return {**_NAMES, **_NAMES_OF_TIMES}.get(name, name)


def _moment(name: str, kind: str, column: Column) -> Column:
    from pyspark.sql import functions as F

    if kind == "binary":
        # The buffer of an aggregate that only Spark reads, such as a set or a sketch.
        return F.concat(F.octet_length(column).cast("string"), F.lit(" bytes"))
    if kind != "long":
        return column
    if name in _MILLIS:
        return F.when(column > _FIRST // 1000, F.timestamp_millis(column))
    return F.when(column > _FIRST, F.timestamp_micros(column)) if name in _MICROS else column
