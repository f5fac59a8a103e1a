"""What commands that were killed have left to do, which comes before anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine.erasure import switch as forgetting
from keyfold.engine.log import prepared
from keyfold.engine.migration import switch as migrating
from keyfold.engine.operations import removal as table_removal
from keyfold.engine.recovery import view_rebuilding
from keyfold.engine.rescale import switch as rescaling
from keyfold.engine.savepoint import capture, clone, deletion, importing, restoration
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease, is_held_by_app
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.surgery import rewriting


@dataclass(frozen=True)
class Kind:
    """Finishes or discards what a kind of command leaves in an app's home when it is interrupted."""

    finish: Callable[[AppHome], Any]
    intent: str
    work: str | None = None
    """The directory of files that take the place of others."""
    replaces: bool = False
    """Whether it replaces files by others, which must all be there."""

    @property
    def names(self) -> set[str]:
        """What it leaves in the directory of the home."""
        return {self.intent, self.work or self.intent}


KINDS: Final = (
    Kind(clone.discard_unfinished, clone.INTENT),
    Kind(table_removal.finish, table_removal.INTENT),
    Kind(capture.finish, capture.INTENT),
    Kind(importing.finish, importing.INTENT),
    Kind(view_rebuilding.finish, view_rebuilding.INTENT),
    Kind(rescaling.finish, rescaling.INTENT, rescaling.WORK, replaces=True),
    Kind(rewriting.finish, rewriting.INTENT, rewriting.WORK, replaces=True),
    Kind(migrating.finish, migrating.INTENT, migrating.WORK, replaces=True),
    Kind(forgetting.finish, forgetting.INTENT, forgetting.STAGE, replaces=True),
    Kind(restoration.finish, restoration.INTENT, replaces=True),
    Kind(deletion.finish, deletion.INTENT),
    Kind(lambda place: audit.settle(place.storage), audit.LEFT),
)
"""Recovery handlers, in order."""


def finish(place: AppHome) -> None:
    """Finishes what is recorded, and discards what is not; the caller holds the home.

    One look at the app's directory says whether there is anything to do.
    """
    left = set(place.storage.list())
    if place.remote is not None or place.local != place.path:
        # What a command has left on this disk, which another host may have finished.
        left |= set(LocalStorage(place.local).list())
    for kind in KINDS:
        if left & kind.names:
            kind.finish(place)
    prepared.settle_all(place)


@contextmanager
def held(place: AppHome) -> Iterator[Lease]:
    """The home of an app that no process runs, with nothing left to finish."""
    lease = Lease(place, command=True).take()
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
