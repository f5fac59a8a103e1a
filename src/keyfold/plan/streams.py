"""Checks that a stream's source has the schema it needs, and that a sink can be written to."""

from __future__ import annotations

from typing import Final

from keyfold.errors import BadOption
from keyfold.plan import checks, schema
from keyfold.plan.nodes import Connector, TableSpec

RATE_SCHEMA: Final = "timestamp timestamp, value bigint"
# Formats that Spark streams only with a schema; others (delta, socket, kafka, text) bring their own.
_NEEDS_SCHEMA: Final = frozenset({"json", "csv", "parquet", "orc", "avro", "xml"})


def stream_schema(
    source: Connector, given: object, where: object = None
) -> tuple[dict[str, str], str | None]:
    """The columns that are known, and the schema as DDL or None if the source brings its own."""
    if source.kind == "rate":
        return _rate(given, where)
    if given is None:
        if source.kind != "spark" or source.format.lower() in _NEEDS_SCHEMA:
            kind = "rows" if source.kind == "rows" else f"{source.format} files"
            hint = "schema='id string, amount double, at timestamp'"
            raise BadOption(f"a stream of {kind} needs a schema", where=where, hint=hint)
        return {}, None
    columns = schema.columns(given, where)
    return columns, str(given).strip()


def checked_sink(sink: object, table: TableSpec, where: object = None) -> Connector:
    """The connector, if a table's changes can go there."""
    advice = 'kf.files("out", format="parquet") or kf.spark("format")'
    checked = checks.instance(sink, Connector, "the sink of a table must be a sink", advice, where)
    if checked.kind in ("rate", "rows"):
        raise BadOption(f"kf.{checked.kind} is a source and can't be written to", where=where, hint=advice)
    if checked.kind == "files" and set(checked.path or "") & set("*?[{"):
        problem = "a sink needs the path of one directory, not a glob"
        raise BadOption(problem, where=where, given=repr(checked.path))
    if checked in table.sinks:
        raise BadOption("the table has that sink already", where=where, given=checked.path or checked.format)
    return checked


def _rate(given: object, where: object) -> tuple[dict[str, str], str]:
    own = schema.columns(RATE_SCHEMA)
    if given is not None and schema.columns(given, where) != own:
        hint = "leave schema out and rename with select: .select(at='timestamp')"
        problem = f"the schema of kf.rate is {RATE_SCHEMA}"
        raise BadOption(problem, where=where, given=f"schema={given!r}", hint=hint)
    return own, RATE_SCHEMA
