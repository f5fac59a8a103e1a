"""What a lease does on every storage: a storage's test class inherits these tests and gives `home`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.lease_files import LeaseFiles, LeaseRecord
from keyfold.engine.storage.processes import identity
from keyfold.errors import HomeLocked, LeaseLost
from keyfold.fault_points import FaultPoint, handled_by

ELSEWHERE = {"name": "elsewhere", "boot": "another", "pids": "pid:[1]"}
THIRD = {**ELSEWHERE, "name": "third", "boot": "a third"}


def record(epoch: int, pid: int, *, seconds: float = 0.5, **other: Any) -> LeaseRecord:
    """The lease of a process that sends no heartbeat."""
    since = "2026-01-01T12:00:00+00:00"
    known = {"host": ELSEWHERE, "python": identity(pid), "jvm": None, **other}
    return LeaseRecord(epoch, seconds=seconds, since=since, at=since, expires=since, **known)


class LeaseContract:
    """The tests; `home` is empty at the start of each."""

    @pytest.fixture
    def home(self) -> AppHome:
        raise NotImplementedError

    def test_epochs_only_grow(self, home: AppHome) -> None:
        for epoch in (1, 2, 3, 4):
            lease = Lease(home).take()
            assert lease.epoch == epoch
            lease.check()
            lease.release()
        assert home.storage.list("lease") == ["3.json", "4.json"]

    def test_a_holder_on_another_host_is_seen_by_its_heartbeat(self, home: AppHome) -> None:
        held = Lease(home, seconds=3.0, host=ELSEWHERE).take()
        with pytest.raises(HomeLocked, match=r"pid \d+ on elsewhere"):
            Lease(home).take()
        held.check()
        held.release()
        Lease(home).take().release()

    def test_a_silent_holder_on_another_host_is_taken_over(self, home: AppHome) -> None:
        assert LeaseFiles(home.storage).create(record(7, 1))
        lease = Lease(home).take()
        assert lease.epoch == 8
        lease.check()
        lease.release()

    def test_a_holder_that_was_taken_over_may_not_write(self, home: AppHome) -> None:
        lease = Lease(home, host=ELSEWHERE).take()
        LeaseFiles(home.storage).create(record(2, 1, host=THIRD))
        for _ in range(2):
            with pytest.raises(LeaseLost, match=r"taken over by pid 1 on third"):
                lease.check()
        lease.release()
        assert home.storage.list("lease") == ["1.json", "2.json"]

    def test_of_two_that_find_a_home_free_one_takes_it(self, home: AppHome) -> None:
        together = Barrier(2)

        def both(point: FaultPoint, _: dict[str, Any]) -> None:
            if point is FaultPoint.LEASE_FREE:
                together.wait()

        def take(_: int) -> Lease | None:
            try:
                return Lease(home).take()
            except HomeLocked:
                return None

        with handled_by(both), ThreadPoolExecutor(2) as threads:
            (taken,) = filter(None, threads.map(take, range(2)))
        taken.check()
        taken.release()
