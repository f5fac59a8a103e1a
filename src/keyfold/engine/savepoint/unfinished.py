"""What commands that were killed have left to do, which comes before anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from keyfold.engine.log import prepared
from keyfold.engine.recovery import table_removal
from keyfold.engine.savepoint import (
    capture,
    clone,
    deletion,
    forgetting,
    importing,
    migrating,
    rescaling,
    restoration,
    rewriting,
    view_rebuilding,
)
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease, is_held_by_app
from keyfold.engine.storage.local import LocalStorage

_LEFT: Final[tuple[tuple[Callable[[AppHome], Any], frozenset[str]], ...]] = (
    (clone.discard_unfinished, frozenset({clone.INTENT})),
    (table_removal.finish, frozenset({table_removal.INTENT})),
    (capture.finish, frozenset({capture.INTENT})),
    (importing.finish, frozenset({importing.INTENT})),
    (view_rebuilding.finish, frozenset({view_rebuilding.INTENT})),
    (rescaling.finish, frozenset({rescaling.INTENT, rescaling.WORK})),
    (rewriting.finish, frozenset({rewriting.INTENT, rewriting.WORK})),
    (migrating.finish, frozenset({migrating.INTENT, migrating.WORK})),
    (forgetting.finish, frozenset({forgetting.INTENT, forgetting.STAGE})),
    (restoration.finish, frozenset({restoration.INTENT})),
    (deletion.finish, frozenset({deletion.INTENT})),
    (lambda place: audit.settle(place.storage), frozenset({audit.LEFT})),
)
"""Who sees to what an interrupted command leaves in an app's home, in this order."""


def finish(place: AppHome) -> None:
    """Finishes what is recorded, and discards what is not; the caller holds the home.

    One look at the app's directory says whether there is anything to do.
    """
    left = set(place.storage.list())
    if place.remote is not None or place.local != place.path:
        # What a command has left on this disk, which another host may have finished.
        left |= set(LocalStorage(place.local).list())
    for see_to, names in _LEFT:
        if left & names:
            see_to(place)
    prepared.settle_all(place)


@contextmanager
def held(place: AppHome) -> Iterator[Lease]:
    """The home of an app that no process runs, with nothing left to finish."""
    lease = Lease(place).take()
    try:
        finish(place)
        yield lease
    finally:
        lease.release()


@contextmanager
def held_or_running(place: AppHome) -> Iterator[bool]:
    """The home for what a running app does not mind, and other commands would: a change of its savepoints.

    Also of side outputs. A restore that was interrupted still needs its savepoints, and an erasure has not
    seen side outputs that come after it: both are finished first. Yields whether this process holds the home.
    """
    if is_held_by_app(place):
        # A savepoint that was imported may be deleted next, and its import would have no line.
        importing.finish(place, held=False)
        yield False
        return
    with held(place):
        yield True
