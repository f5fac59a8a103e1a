"""What an app can't do yet in a home that is not on a local disk."""

from __future__ import annotations

from collections.abc import Iterator

from keyfold.engine.log import readers
from keyfold.errors import BadOption
from keyfold.plan.nodes import AppSpec


def check(spec: AppSpec, home: str) -> None:
    """Refuses an app whose tables keep files that only a local home has."""
    found = list(_unsupported(spec))
    if found:
        raise BadOption(
            f"{spec.name} can't run in this home yet: {'; '.join(found)}",
            given=home,
            hint="use a home on a local disk, and KEYFOLD_LOCAL for views",
        )


def _unsupported(spec: AppSpec) -> Iterator[str]:
    for stream in spec.streams:
        if stream.connector.kind == "rows":
            yield f"stream {stream.name} is kf.rows"
    for table in spec.tables:
        if readers.uses(table):
            yield f"table {table.name} reads another table"
        if table.idle_ms is not None:
            yield f"table {table.name} has idle="
        if table.keep_ms is not None:
            yield f"table {table.name} has keep="
