"""Makes a savepoint of a stopped app."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from keyfold.engine.operations import unfinished
from keyfold.engine.savepoint import state_check
from keyfold.engine.savepoint.capture import Progress, capture, silent
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import checked_name
from keyfold.engine.storage.layout import AppHome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create(
    home: AppHome,
    name: str,
    tables: Sequence[str] = (),
    why: str | None = None,
    progress: Progress = silent,
    spark: SparkSession | None = None,
) -> Savepoint:
    """Makes a savepoint of some or all tables of an app that no process runs.

    With a Spark session the state is read back, and the number and a checksum of its rows are recorded.
    """
    checked_name(name)
    with unfinished.held(home):
        states = None if spark is None else partial(state_check.states, spark, home)
        return capture(home, name, tables, why, progress, states)
