"""Finishes what interrupted operations have left, which comes before anything else."""

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
    """Finishes what is recorded, and discards what is not; the caller holds the home.

    One look at the app's directory says whether there is anything to do.
    """
    left = set(home.storage.list())
    if home.remote is not None or home.local != home.path:
        # What a command has left on this disk, which another host may have finished.
        left |= set(LocalStorage(home.local).list())
    for kind in KINDS:
        if left & kind.names:
            kind.finish(home)
    if audit.LEFT in left:
        audit.settle(home.storage)
    prepared.settle_all(home)


@contextmanager
def held(home: AppHome) -> Iterator[Lease]:
    """The home of an app that no process runs, with nothing left to finish."""
    lease = Lease(home, command=True).take()
    try:
        finish(home)
        yield lease
    finally:
        lease.release()


@contextmanager
def held_or_running(home: AppHome) -> Iterator[bool]:
    """The home for what a running app does not mind, and other commands would: a change of its savepoints.

    Also of side outputs. A restore that was interrupted still needs its savepoints, and an erasure has not
    seen side outputs that come after it: both are finished first. Yields whether this process holds the home.
    """
    if is_held_by_app(home):
        # A savepoint that was imported may be deleted next, and its import would have no line.
        IMPORT.finish(home, held=False)
        yield False
        return
    with held(home):
        yield True
