"""The lease on an app's home: which process may write it.

A lease is a file, `lease/<epoch>.json`, that only one process can create. Its holder renews it by a
heartbeat. Another process takes the home over by creating the next epoch: at once if the holder is known to
be gone, which can be checked on the holder's host, otherwise when no heartbeat has been seen for the lease
time. The clocks of different hosts are not compared: each host measures time on its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease_files import LeaseFile, LeaseFiles, LeaseRecord
from keyfold.engine.storage.lease_takeover import Takeover
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.processes import alive, identity, same_host, this_host
from keyfold.errors import HomeUnusable, LeaseLost
from keyfold.fault_points import FaultPoint, reached

LEASE_SECONDS: Final = 15.0
# Fractions of the lease time: how often it is renewed, and for how long its holder relies on it. The rest is
# a margin for writes in progress.
_HEARTBEAT: Final = 1 / 3
_RELIED_ON: Final = 2 / 3

# Queries outlive a handle without references, and so must the lease.
_HELD: set[Lease] = set()
# Leases, by directory and epoch, that this process released without being able to record it.
_RELEASED_UNWRITTEN: set[tuple[str, int]] = set()


class Lease:
    """The right of this process and its JVM to write an app's home."""

    def __init__(
        self,
        home: AppHome,
        *,
        seconds: float = LEASE_SECONDS,
        host: Mapping[str, Any] | None = None,
        command: bool = False,
    ) -> None:
        """`host`: this process's host name, for tests. `command`: this process runs no app."""
        self._home, self._seconds, self._host = home, seconds, host or this_host()
        self._files = LeaseFiles(home.storage, LocalStorage(home.path) if home.remote else None)
        self._takeover = Takeover(home, self._files, self._host, seconds, command=command)
        self._record: LeaseRecord | None = None
        self._renewed = 0.0
        self._lost: LeaseLost | None = None
        self._released = threading.Event()
        # A renewal by the heartbeat and one by a check must not overlap.
        self._changing = threading.RLock()

    @property
    def epoch(self) -> int:
        """The number of the right to write, which every manifest records. It never decreases."""
        assert self._record is not None, "the lease was not taken"
        return self._record.epoch

    def take(self) -> Lease:
        """Takes the lease, or raises `HomeLocked`; ends a JVM that the last holder left on this host.

        If the last holder was on another host and did not release the home, this takes the lease time.
        """
        with self._usable():
            while not self._try():
                continue  # another process was faster: look which one
            self._files.remove_old()
        _HELD.add(self)
        threading.Thread(target=self._beat, name=f"lease {self._home.path.name}", daemon=True).start()
        return self

    def _try(self) -> bool:
        self._lost, last = None, self._files.newest()
        if last is not None and not self._was_released_here(last) and not self._takeover.is_over(last):
            return False
        now = _clock()
        record = self._first_record(1 if last is None else last.epoch + 1)
        reached(FaultPoint.LEASE_FREE, epoch=record.epoch)
        if not self._files.create(record):
            return False
        self._record, self._renewed = record, now
        if last is not None and self._came_back(last):
            # It finds out with its next heartbeat; until then it may rely on its lease.
            time.sleep(last.seconds_or(self._seconds))
            self._renew()
        return self._lost is None

    def _was_released_here(self, last: LeaseFile) -> bool:
        """Whether the last holder was this process, which released the lease on a full disk."""
        home = (self._home.storage.uri("lease"), last.epoch)
        record = last.record
        return home in _RELEASED_UNWRITTEN and record is not None and record.python == identity(os.getpid())

    def _came_back(self, last: LeaseFile) -> bool:
        """Whether the last holder renewed its lease while this process began the next epoch."""
        now = self._files.read(last.epoch)
        return now is not None and now != last and not now.released

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HomeUnusable(
                f"the lease on the home can't be written: {error.strerror or error}",
                given=self._home.storage.uri("lease"),
                hint="correct that, or use another home (--home DIR, home=..., or KEYFOLD_HOME)",
            ) from None

    def _first_record(self, epoch: int) -> LeaseRecord:
        now, me = datetime.now(UTC), identity(os.getpid())
        return _stamp(LeaseRecord(epoch, self._host, me, None, self._seconds, now.isoformat(), "", ""))

    def holds_jvm(self, pid: int) -> None:
        """Records the JVM that commits for this process."""
        with self._changing, self._usable():
            assert self._record is not None
            self._record = replace(self._record, jvm=identity(pid))
            self._files.write(self._record)

    def check(self) -> None:
        """Raises `LeaseLost` unless this process may write; to be called before every commit.

        A process that was suspended past its lease time may write again if it can begin the next epoch.
        """
        with self._changing:
            if self._lost is None:
                try:
                    self._refuse_newer()
                    # Last, so that a pause before this line is noticed too.
                    if not self._is_relied_on():
                        self._renew()
                except OSError as error:
                    # An epoch renewed in time belongs to this process, whether or not the storage responds.
                    if not self._is_relied_on():
                        self._lost = self._cannot_renew(error)
            if self._lost is not None:
                raise self._lost

    def _is_relied_on(self) -> bool:
        return _clock() - self._renewed < self._seconds * _RELIED_ON

    def _beat(self) -> None:
        """Renews the lease until it is released or lost. A renewal that fails is tried again."""
        while not self._released.wait(self._seconds * _HEARTBEAT):
            with suppress(OSError), self._changing:
                if not self._released.is_set() and self._lost is None:
                    self._renew()
            if self._lost is not None:
                return

    def _renew(self) -> None:
        """Renews the lease in time; if it is too late, begins the next epoch, unless another process has."""
        assert self._record is not None
        now = _clock()
        if self._is_relied_on():
            record = _stamp(replace(self._record, beat=self._record.beat + 1))
            self._files.write(record)
            # After the write: a process that begins the next epoch looks at this file once more after that.
            self._refuse_newer()
        else:
            self._refuse_newer()
            record = _stamp(replace(self._record, epoch=self.epoch + 1, beat=0))
            if self._lost is None and not self._files.create(record):
                self._refuse_newer()
        if self._lost is None:
            is_next = record.epoch > self.epoch
            self._record, self._renewed = record, now
            if is_next:
                self._files.remove_old()

    def _refuse_newer(self) -> None:
        newest = self._files.newest_epoch()
        if newest > self.epoch:
            self._lost = self._takeover_error()

    def _takeover_error(self) -> LeaseLost:
        newest = self._files.newest()
        who = "another process" if newest is None or newest.record is None else str(newest.record)
        return LeaseLost(
            f"this process no longer holds {self._home.path}",
            given=f"epoch {self.epoch}, taken over by {who}",
            hint="this process did not renew its lease in time: it was suspended, or its storage did not "
            "answer; nothing more is written. Stop one of the two processes",
        )

    def _cannot_renew(self, error: OSError) -> LeaseLost:
        return LeaseLost(
            f"the lease on {self._home.path} can't be renewed: {error.strerror or error}",
            given=f"epoch {self.epoch}",
            hint="nothing more is written, since another process may have taken the home over; start again "
            "when the storage can be written",
        )

    def release(self) -> None:
        """Releases the lease, if it is held: the next process takes it at once."""
        with self._changing:
            if self._record is not None and not self._released.is_set():
                self._released.set()
                try:
                    self._files.write(replace(self._record, released=True))
                except OSError:
                    # Other processes take the home over once this one has ended.
                    _RELEASED_UNWRITTEN.add((self._home.storage.uri("lease"), self._record.epoch))
            _HELD.discard(self)


def current(home: AppHome) -> LeaseRecord | None:
    """The record of the process that holds a home, if it is running on this host. Does not take the lease."""
    try:
        newest = LeaseFiles(home.storage).newest()
    except OSError:
        return None
    record = None if newest is None else newest.record
    if record is None or record.released or not same_host(record.host, this_host()):
        return None
    return record if alive(record.python) else None


def is_held_by_app(home: AppHome) -> bool:
    """Whether the holder of a home seems to be a running app: the lease of a command names no JVM."""
    newest = LeaseFiles(home.storage).newest()
    record = None if newest is None else newest.record
    return record is not None and record.jvm is not None and is_held(home)


def is_held(home: AppHome) -> bool:
    """Whether a process seems to hold a home, here or, judging by the clock, elsewhere; informational."""
    newest = LeaseFiles(home.storage).newest()
    record = None if newest is None else newest.record
    if record is None or record.released:
        return False
    if same_host(record.host, this_host()):
        return alive(record.python) is not None
    return datetime.fromisoformat(record.expires) > datetime.now(UTC)


def _stamp(record: LeaseRecord) -> LeaseRecord:
    now = datetime.now(UTC)
    ends = now + timedelta(seconds=record.seconds)
    return replace(record, at=now.isoformat(), expires=ends.isoformat())


def _clock() -> float:
    """Seconds including the time that the machine is suspended, if the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
