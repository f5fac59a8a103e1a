"""Which streams have a log of their own when an app first starts."""

from __future__ import annotations

from keyfold.plan import formats, tree
from keyfold.plan.nodes import AppSpec, Source, TableSpec
from keyfold.plan.validate import tombstones


def is_shared(spec: AppSpec, stream: Source) -> bool:
    """Whether a stream is parsed once for all its tables.

    As declared; otherwise if that saves work: two or more tables read it, and its rows have to be parsed. A
    stream whose event time a table compares with that of another stream is read directly: each log advances
    at its own pace, and sources are read batch by batch in step.
    """
    asked = declared_sharing(stream)
    return _gains(spec, stream) if asked is None else asked


def declared_sharing(stream: Source) -> bool | None:
    """Whether the declaration decides it, and how: rows that stay readable need a log."""
    return True if stream.history_ms is not None else stream.shared


def _gains(spec: AppSpec, stream: Source) -> bool:
    if tombstones.deletes(stream):
        # A log of rows has no deletes.
        return False
    readers = [table for table in spec.tables if stream in tree.queried_sources(spec, table)]
    if any(table.latency is not None for table in readers):
        # A log has rows only after their batch is finished.
        return False
    if stream.time is not None and any(_has_other_times(spec, stream, table) for table in readers):
        return False
    return len(readers) > 1 and formats.is_parsed(stream.connector.kind, stream.connector.format)


def _has_other_times(spec: AppSpec, stream: Source, table: TableSpec) -> bool:
    """Whether a table also reads another stream with event time."""
    return any(
        other.time is not None and other.name != stream.name for other in tree.queried_sources(spec, table)
    )
