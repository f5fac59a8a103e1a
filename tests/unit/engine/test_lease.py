"""The lease on a home, with real processes: killed, suspended, and on other hosts."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from keyfold.engine.polling import wait_until
from keyfold.engine.storage import lease_takeover
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.engine.storage.lease import Lease, current
from keyfold.engine.storage.lease_files import LeaseFiles, LeaseRecord
from keyfold.engine.storage.processes import identity, same_host, this_host
from keyfold.errors import HomeLocked, HomeUnusable, LeaseLost
from keyfold.fault_points import FaultPoint, handled_by
from tests.leases import holder
from tests.storage.lease_contract import ELSEWHERE, LeaseContract, record

# Holds the lease, and says for each line that it reads whether it may write.
HOLD = """
import sys
from pathlib import Path
from keyfold.engine.storage.layout import local_app_home
from keyfold.engine.storage.lease import Lease
from keyfold.errors import LeaseLost
lease = Lease(local_app_home(Path(sys.argv[1]), "shop"), seconds=float(sys.argv[2])).take()
print("held", flush=True)
for line in sys.stdin:
    try:
        lease.check()
        print("epoch", lease.epoch, flush=True)
    except LeaseLost as error:
        print("lost", error.given, flush=True)
"""


class Holder:
    """Another process that holds the home of the app `shop`."""

    def __init__(self, home: Path, seconds: float) -> None:
        command = [sys.executable, "-c", HOLD, str(home), str(seconds)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._line() == "held"
        self.pid = self.process.pid

    def may_write(self) -> str:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        return self._line()

    def suspend(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        assert wait_until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED, 10)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()


@contextmanager
def held(home: Path, seconds: float = 15.0) -> Iterator[Holder]:
    found = Holder(home, seconds)
    with found.process:
        yield found
        found.process.kill()


@pytest.fixture
def home(tmp_path: Path) -> AppHome:
    return local_app_home(tmp_path, "shop")


def newest(home: AppHome) -> LeaseRecord:
    found = LeaseFiles(home.storage).newest()
    assert found is not None
    assert found.record is not None
    return found.record


def is_past(home: AppHome) -> bool:
    return datetime.now(UTC) > datetime.fromisoformat(newest(home).expires)


class TestLeaseOnALocalDisk(LeaseContract):
    @pytest.fixture
    def home(self, tmp_path: Path) -> AppHome:
        return local_app_home(tmp_path, "shop")


def test_a_home_is_held_by_one_process_at_a_time(tmp_path: Path, home: AppHome) -> None:
    with held(tmp_path) as other:
        with pytest.raises(HomeLocked, match=f"pid {other.pid}\n") as refused:
            Lease(home).take()
        assert refused.value.passes, "a command, or a start, ends some time"
        assert holder(home) == other.pid
        Lease(local_app_home(tmp_path, "another")).take().release()


def test_a_home_whose_holder_runs_queries_is_not_free_soon(home: AppHome) -> None:
    known = identity(os.getppid())
    LeaseFiles(home.storage).create(record(1, os.getppid(), host=this_host(), python=known, jvm=known))
    with pytest.raises(HomeLocked, match="another process holds") as refused:
        Lease(home).take()
    assert not refused.value.passes


def test_the_home_of_a_killed_process_is_taken_over_at_once(tmp_path: Path, home: AppHome) -> None:
    with held(tmp_path, seconds=3600.0) as other:
        os.kill(other.pid, signal.SIGKILL)
        # Also while nobody has asked how it ended.
        assert wait_until(lambda: psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE, 10)
        assert holder(home) is None
        lease = Lease(home).take()
    assert lease.epoch == 2
    lease.release()


def test_an_orphaned_jvm_is_ended_before_the_home_is_taken(
    home: AppHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_takeover, "ORPHAN_SECONDS", 0.1)
    gone = {**identity(os.getpid()), "ticks": 1}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as orphan:
        left = record(1, os.getpid(), host=this_host(), python=gone, jvm=identity(orphan.pid))
        LeaseFiles(home.storage).create(left)
        Lease(home).take().release()
        assert not psutil.pid_exists(orphan.pid)


def test_a_process_that_only_has_the_orphans_pid_is_left_alone(
    home: AppHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_takeover, "ORPHAN_SECONDS", 0.1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        known = identity(other.pid)
        began = next(name for name in ("ticks", "started") if name in known)
        earlier = {**known, began: known[began] - 3600}
        for epoch, jvm in ((1, earlier), (3, {**known, "boot": "another"}), (5, {"pid": other.pid})):
            left = record(epoch, other.pid, host=this_host(), python=earlier, jvm=jvm)
            assert LeaseFiles(home.storage).create(left)
            Lease(home).take().release()
            assert other.poll() is None
        other.kill()


def test_a_step_of_the_clock_does_not_hide_who_holds_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What Linux shows after the clock was set: processes began at another time of day.
    stepped = tmp_path / "proc"
    stepped.mkdir()
    for entry in Path("/proc").iterdir():
        if entry.name != "stat":
            (stepped / entry.name).symlink_to(entry)
    lines = Path("/proc/stat").read_text().splitlines()
    moved = [f"btime {int(line.split()[1]) + 3600}" if line.startswith("btime") else line for line in lines]
    (stepped / "stat").write_text("\n".join(moved))
    with held(tmp_path / "home") as other:
        monkeypatch.setattr(psutil, "PROCFS_PATH", str(stepped))
        monkeypatch.setattr(psutil._pslinux, "BOOT_TIME", None, raising=False)
        (stepped / str(other.pid)).symlink_to(f"/proc/{other.pid}")
        assert holder(local_app_home(tmp_path / "home", "shop")) == other.pid


def test_a_second_start_in_one_process_says_that_it_runs_there(home: AppHome) -> None:
    lease = Lease(home).take()
    with pytest.raises(HomeLocked, match="this process already runs shop") as refused:
        Lease(home).take()
    assert "stop()" in str(refused.value)
    lease.release()


def test_the_same_boot_with_other_pids_is_another_container() -> None:
    host = this_host()
    assert same_host(host, {**host, "name": "renamed"})
    assert not same_host(host, {**host, "pids": "pid:[1]"})
    assert not same_host(host, {**host, "boot": "another"})
    assert same_host({"name": "a"}, {"name": "a"})
    assert not same_host({"name": "a"}, {"name": "b"})


@pytest.mark.parametrize("content", [b"", b"{not json", b"[]", b'{"epoch": 3}'])
def test_a_lease_that_makes_no_sense_is_taken_over_after_the_lease_time(
    home: AppHome, content: bytes
) -> None:
    home.storage.put("lease/3.json", content)
    assert current(home) is None
    lease = Lease(home, seconds=0.2).take()
    assert lease.epoch == 4
    lease.release()


def test_a_holder_on_another_host_has_its_own_lease_time_to_come_back(home: AppHome) -> None:
    LeaseFiles(home.storage).create(record(1, 1, seconds=1.0))
    began = time.monotonic()
    Lease(home, seconds=0.1).take().release()
    assert time.monotonic() - began >= 1.0


def test_a_heartbeat_renews_the_lease(home: AppHome) -> None:
    lease = Lease(home, seconds=0.3).take()
    first = newest(home)
    assert wait_until(lambda: newest(home).beat > first.beat + 2 or newest(home).epoch > 1, 10)
    assert newest(home).expires > first.expires
    assert newest(home).since == first.since
    lease.release()
    assert newest(home).released
    assert holder(home) is None


def test_a_suspended_process_that_was_taken_over_does_not_write(tmp_path: Path, home: AppHome) -> None:
    with held(tmp_path, seconds=1.0) as other:
        assert other.may_write() == "epoch 1"
        other.suspend()
        lease = Lease(home, host=ELSEWHERE).take()
        assert lease.epoch == 2
        other.resume()
        assert other.may_write() == f"lost epoch 1, taken over by pid {os.getpid()} on elsewhere"
        lease.check()
        assert newest(home).epoch == 2
        assert other.may_write().startswith("lost")
    lease.release()


def test_a_suspended_process_that_nobody_took_over_begins_the_next_epoch(
    tmp_path: Path, home: AppHome
) -> None:
    with held(tmp_path, seconds=0.5) as other:
        other.suspend()
        epoch = newest(home).epoch
        assert wait_until(lambda: is_past(home), 10)
        other.resume()
        assert int(other.may_write().removeprefix("epoch ")) > epoch


def test_a_suspended_process_on_this_host_keeps_the_home(tmp_path: Path, home: AppHome) -> None:
    with held(tmp_path, seconds=0.2) as other:
        other.suspend()
        assert wait_until(lambda: is_past(home), 10)
        with pytest.raises(HomeLocked, match=f"pid {other.pid}\n"):
            Lease(home).take()


def test_who_takes_over_waits_for_a_holder_that_came_back_at_that_moment(home: AppHome) -> None:
    files, late = LeaseFiles(home.storage), record(1, 1, seconds=0.5)
    files.create(late)
    came_back: list[float] = []

    def renew(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point is FaultPoint.LEASE_FREE and facts["epoch"] == 2:
            files.write(record(1, 1, seconds=0.5, beat=1))
            came_back.append(time.monotonic())

    with handled_by(renew):
        lease = Lease(home).take()
    assert time.monotonic() - came_back[0] >= 0.5
    lease.check()
    lease.release()


def failing(point: FaultPoint, facts: dict[str, Any]) -> None:
    if point is FaultPoint.STORAGE_WRITTEN and facts["name"].startswith("lease/"):
        raise OSError(errno.ENOSPC, "No space left on device")


def may_write(lease: Lease) -> bool:
    try:
        lease.check()
    except LeaseLost:
        return False
    return True


def test_a_holder_that_cannot_renew_stops_in_time(home: AppHome) -> None:
    lease = Lease(home, seconds=0.5).take()
    with handled_by(failing):
        assert wait_until(lambda: not may_write(lease), 10)
        with pytest.raises(LeaseLost, match="can't be renewed: No space left on device"):
            lease.check()
    assert not may_write(lease), "it does not come back by itself"
    lease.release()
    Lease(home).take().release()


def test_a_disk_that_is_full_for_a_moment_costs_nothing(home: AppHome) -> None:
    lease = Lease(home, seconds=60.0).take()
    with handled_by(failing):
        lease.check()
    lease.check()
    assert lease.epoch == 1
    lease.release()


def test_a_lease_that_is_released_on_a_full_disk_can_be_taken_again(home: AppHome) -> None:
    lease = Lease(home).take()
    with handled_by(failing):
        lease.release()
    again = Lease(home).take()
    assert again.epoch == 2
    with pytest.raises(HomeLocked, match="this process already runs shop"):
        Lease(home).take()
    again.release()


def test_a_home_whose_lease_cannot_be_written_is_unusable(home: AppHome) -> None:
    with handled_by(failing), pytest.raises(HomeUnusable, match="No space left on device"):
        Lease(home).take()
    Lease(home).take().release()


def test_the_jvm_is_recorded_and_heartbeats_keep_it(home: AppHome) -> None:
    lease = Lease(home, seconds=0.3).take()
    lease.holds_jvm(os.getpid())
    at = newest(home).at
    assert wait_until(lambda: newest(home).at > at, 10)
    assert newest(home).jvm == identity(os.getpid())
    lease.release()
