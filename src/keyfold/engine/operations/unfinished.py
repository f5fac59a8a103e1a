"""Finishes interrupted operations before anything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.engine.log import prepared
from keyfold.engine.operations.kinds import IMPORT, KINDS
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease, is_held_by_app
from keyfold.engine.storage.local import LocalStorage


def finish(home: AppHome) -> None:
    """Finishes recorded operations, and discards unrecorded ones; the caller holds the home.

    One listing of the app's directory shows whether there is anything to do.
    """
    left = set(home.storage.list())
    if home.remote is not None or home.local != home.path:
        # Files that a command left on this disk, and whose operation another host may have finished.
        left |= set(LocalStorage(home.local).list())
    for kind in KINDS:
        if left & kind.names:
            kind.finish(home)
    if audit.LEFT in left:
        audit.settle(home.storage)
    prepared.settle_all(home)


@contextmanager
def held(home: AppHome) -> Iterator[Lease]:
    """The home of an app that no process runs, with no unfinished operations."""
    lease = Lease(home, command=True).take()
    try:
        finish(home)
        yield lease
    finally:
        lease.release()


@contextmanager
def held_or_running(home: AppHome) -> Iterator[bool]:
    """The home for a change of savepoints or side outputs, which a running app allows.

    Without a running app, interrupted operations are finished first: a restore still needs its savepoints,
    and an erasure has not seen later side outputs. Yields whether this process holds the home.
    """
    if is_held_by_app(home):
        # A savepoint that was imported may be deleted next, and its import would have no line.
        IMPORT.finish(home, held=False)
        yield False
        return
    with held(home):
        yield True
