"""What to write instead of a method that streams and tables don't have, such as one of a DataFrame."""

from __future__ import annotations

from typing import Final

from keyfold.declare.keyed_stream import KeyedStream
from keyfold.declare.stream import Stream
from keyfold.errors import choice, did_you_mean

_INSTEAD: Final = {
    "agg": 'by("key").table("name", n="count(*)")',
    "dropDuplicates": 'distinct("id", within="1 day")',
    "dropDuplicatesWithinWatermark": 'distinct("id", within="1 day")',
    "filter": 'where("condition")',
    "groupBy": 'by("key")',
    "groupby": 'by("key")',
    "selectExpr": 'select("expression as name")',
    "window": "tumbling(...), sliding(...) or session(...) after by(...)",
    "withColumn": 'select("*", name="expression")',
    "withWatermark": 'app.stream(..., time="at", late="10 minutes")',
    "writeStream": 'table.to(kf.spark("format"))',
}


def hint(error: BaseException) -> str | None:
    """The hint for an `AttributeError` of a keyfold object; None for any other error."""
    if not isinstance(error, AttributeError) or not type(error.obj).__module__.startswith("keyfold.declare"):
        return None
    name = error.name or ""
    if isinstance(error.obj, Stream) and hasattr(KeyedStream, name):
        return f'by("key").{name}(...)'
    if isinstance(error.obj, KeyedStream) and hasattr(Stream, name):
        return f"{name}(...) before by(...)"
    public = [method for method in dir(type(error.obj)) if not method.startswith("_")]
    methods = [method for method in public if callable(getattr(type(error.obj), method))]
    return _INSTEAD.get(name) or did_you_mean(name, methods, choice(methods))
