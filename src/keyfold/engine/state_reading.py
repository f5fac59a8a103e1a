"""A table's state as of a batch or a savepoint, with columns by name: `kf.read_state`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.operations.checkpoint_copy import copy_checkpoint
from keyfold.engine.savepoint.savepoints import FILES, Savepoints
from keyfold.engine.state.state_of import StateOf
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadOption, QueryError
from keyfold.read.home import HomeReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keyfold.settings import Settings


def state_of(home: AppHome, table: str, batch: int | None = None, savepoint: str | None = None) -> StateOf:
    """The state of a table: its last committed batch, an earlier one, or a savepoint."""
    name = f"{home.path.name}.{table}"
    if batch is not None and savepoint is not None:
        raise BadOption("a batch and a savepoint are given", given=name, hint="one of them")
    if savepoint is not None:
        return _of_savepoint(home, table, savepoint)
    checkpoint = home.table(table).spark
    committed = checkpoint.committed_batch()
    if committed is None:
        raise QueryError(f"{name} has no state yet", reason="not_ready", given=name)
    known = retained_batches(checkpoint)
    if batch is not None and batch not in known:
        raise QueryError(
            f"the state of batch {batch} of {name} is not there",
            reason="not_found",
            given=batch,
            hint=f"batches {known[0]} to {known[-1]} are retained; older ones may be in a savepoint",
        )
    return StateOf(name, checkpoint, committed if batch is None else batch)


def retained_batches(checkpoint: SparkCheckpoint) -> list[int]:
    """The committed batches whose state Spark still has, oldest first."""
    return sorted(int(name) for name in checkpoint.storage.list("commits") if name.isdecimal())


def _of_savepoint(home: AppHome, table: str, name: str) -> StateOf:
    savepoint = Savepoints(home).find(name)
    saved = savepoint.tables.get(table)
    if saved is None or saved.batch is None:
        raise QueryError(
            f"savepoint {name} has no state of {table}",
            reason="not_found",
            given=name,
            hint=f"it has {', '.join(savepoint.tables) or 'no tables'}",
        )
    return StateOf(f"{home.path.name}.{table}", _readable(home, table, name), saved.batch, name)


def _readable(home: AppHome, table: str, savepoint: str) -> SparkCheckpoint:
    """The checkpoint in a savepoint, under second names: Spark's paths in it are those of the home.

    The savepoint's own files stay as they are; the names go with it.
    """
    source = f"savepoints/{savepoint}/{FILES}/tables/{table}/checkpoint"
    target = f"savepoints/{savepoint}/reading/{table}/checkpoint"
    # An earlier command may have been killed while it gave them.
    there = {file.name for file in home.storage.files(target)}
    files = [file.name for file in home.storage.files(source) if file.name not in there]
    return copy_checkpoint(home.storage, source, target, files)


def read_state(
    table: str,
    *,
    home: str | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    part: str | None = None,
    key: Sequence[Any] = (),
    spark: SparkSession | None = None,
) -> DataFrame:
    """The state of a table as a DataFrame, with columns by name, also while the app runs.

    >>> kf.read_state("shop.totals", key=["eu"]).show()  # doctest: +SKIP

    `table` is `app.table`, or `table` in a home with one app. `batch`: one that is retained, in place of the
    last; `savepoint`: one by its name. `part`: what the state has beside the table's own fold, such as
    `timers`, or `1.left` of a join that feeds it. `key`: the values of the first columns.
    """
    from keyfold.settings import load

    settings = load(home=home)
    spark = spark or session.own_session(settings)
    app_home, name = _open_table(spark, settings, table)
    return state_of(app_home, name, batch, savepoint).rows(spark, part, [str(value) for value in key]).frame


def _open_table(spark: SparkSession, settings: Settings, name: str) -> tuple[AppHome, str]:
    home = str(settings.home)
    if "://" in home and not home.startswith("file:"):
        reader = HomeReader(settings.local_directory, SparkStorage(session.kernel(spark), spark, home))
    else:
        reader = HomeReader(Path(home.removeprefix("file://")))
    app, part = reader.find(name)
    return app.home, part
