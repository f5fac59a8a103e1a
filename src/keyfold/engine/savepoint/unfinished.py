"""What commands that were killed have left to do, which comes before anything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.engine.log import prepared
from keyfold.engine.recovery import table_removal
from keyfold.engine.savepoint import clone, forgetting, migrating, rescaling, restoration, rewriting
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease


def finish(place: AppHome) -> None:
    """Finishes what is recorded, and discards what is not; the caller holds the home."""
    clone.discard_unfinished(place)
    table_removal.finish(place)
    rescaling.finish(place)
    rewriting.finish(place)
    migrating.finish(place)
    forgetting.finish(place)
    restoration.finish(place)
    prepared.settle_all(place)


@contextmanager
def held(place: AppHome) -> Iterator[None]:
    """The home of an app that no process runs, with nothing left to finish."""
    lease = Lease(place).take()
    try:
        finish(place)
        yield
    finally:
        lease.release()
