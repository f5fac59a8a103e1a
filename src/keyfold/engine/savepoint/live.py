"""Makes a savepoint of a running app: each table between two of its batches, which wait briefly.

A table is captured before the tables and streams that it reads, so that these are never behind it, and
nothing is removed from any log meanwhile: the savepoint has everything between their positions. Views are
copied first.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from keyfold.engine.batch.hook import BatchHook, TableHook
from keyfold.engine.polling import wait_until
from keyfold.engine.savepoint import state_check
from keyfold.engine.savepoint.capture import Capture, Progress, choose_tables, silent
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import checked_name
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A batch is committed a moment after its hook has returned.
_COMMIT_SECONDS = 60.0

# One at a time: each allows pruning again at its end.
_CREATING = threading.Lock()


def create(
    spark: SparkSession,
    home: AppHome,
    hooks: Mapping[str, BatchHook],
    store: ViewStore,
    name: str,
    tables: Sequence[str] = (),
    why: str | None = None,
    progress: Progress = silent,
) -> Savepoint:
    """Makes a savepoint of the tables of a running app; `hooks` in the order of the declaration."""
    known = [name for name, hook in hooks.items() if isinstance(hook, TableHook)]
    wanted = choose_tables(home.path.name, known, tables)
    with _CREATING:
        capture = Capture(home, checked_name(name), live=True, why=why, progress=progress)
        try:
            with _logs_kept(hooks.values()):
                capture.take_view(store)
                for table in reversed(wanted):
                    with _between_batches(hooks[table]):
                        capture.take_table(table)
                with ExitStack() as paused:
                    for hook in hooks.values():
                        if not isinstance(hook, TableHook):
                            paused.enter_context(_between_batches(hook))
                    capture.take_streams()
                capture.take_plan()
            return capture.complete(wanted == known, partial(state_check.states, spark, home))
        except BaseException:
            capture.abandon()
            raise


@contextmanager
def _logs_kept(hooks: Collection[BatchHook]) -> Iterator[None]:
    for hook in hooks:
        hook.keeps_log.set()
    try:
        yield
    finally:
        for hook in hooks:
            hook.keeps_log.clear()


@contextmanager
def _between_batches(hook: BatchHook) -> Iterator[None]:
    """Waits for the running batch, and lets the next one wait."""
    with hook.between_batches:
        last = hook.last
        if not wait_until(lambda: last is None or hook.home.committed_batch() == last, _COMMIT_SECONDS):
            raise QueryError(
                f"batch {last} of {hook.home.app.path.name}.{hook.name} is not committed: "
                "its query has stopped",
                reason="not_ready",
                hint="keyfold status shows why; a stopped app can have a savepoint without --live",
            )
        hook.settle()
        yield
