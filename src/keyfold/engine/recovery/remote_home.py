"""Homes that are not on a local disk: explains why one can't be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.errors import HomeUnusable


@contextmanager
def explain_errors(home: str) -> Iterator[None]:
    """Turns an error of the home's file system, before anything is written, into one with advice."""
    try:
        yield
    except BrokenPipeError:  # of a command's output
        raise
    except OSError as error:
        raise HomeUnusable(
            f"the home can't be used: {error.strerror or error}",
            given=home,
            hint="its file system must be known to Spark (S3: spark.jars.packages with hadoop-aws in the "
            "version of Spark's Hadoop), reachable, and writable with spark.hadoop.* credentials",
        ) from error
