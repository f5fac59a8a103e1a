"""Homes that are not on a local disk: what an app can't do there yet, and why one can't be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.engine.log import readers
from keyfold.errors import BadOption, HomeUnusable
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


@contextmanager
def explained(home: str) -> Iterator[None]:
    """Turns an error of the home's file system, before anything is written, into one that says what to do."""
    try:
        yield
    except OSError as error:
        raise HomeUnusable(
            f"the home can't be used: {error.strerror or error}",
            given=home,
            hint="its file system must be known to Spark (S3: spark.jars.packages with hadoop-aws in the "
            "version of Spark's Hadoop), reachable, and writable with spark.hadoop.* credentials",
        ) from error


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
