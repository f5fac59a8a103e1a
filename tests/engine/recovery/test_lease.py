"""A process that was suspended in the middle of a batch, and was taken over meanwhile, publishes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.testing import shared_session
from tests.storage.lease_contract import ELSEWHERE

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf
from keyfold import errors

def app(inbox):
    found = kf.App("shop")
    orders = found.stream("orders", kf.files(inbox, maxFilesPerTrigger=1), schema="id bigint, region string")
    orders.by("region").table("sums", n="count(*)")
    return found
"""
CHILD = (
    APP
    + """
import signal, sys, threading
from keyfold.fault_points import FaultPoint, handled_by

def suspend(point, facts):
    if point is FaultPoint.PARTS_WRITTEN and facts["batch"] == 1:
        # To this thread: another one would receive it a moment later, while this one publishes.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

settings = {"master": "local[2]", "driver_memory": "1g", "lease_seconds": 5.0}
with handled_by(suspend), app(sys.argv[1]).start(home=sys.argv[2], **settings) as handle:
    try:
        handle.drain()
    except errors.LeaseLost as error:
        print("LEASE LOST", error.table, error.batch, error.given, flush=True)
"""
)


def write(inbox: Path, number: int) -> None:
    inbox.mkdir(exist_ok=True)
    rows = [{"id": number * 10 + n, "region": "eu"} for n in range(3)]
    (inbox / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(inbox / f"{number}.json", (1_000_000 + number, 1_000_000 + number))


def test_a_suspended_process_that_was_taken_over_publishes_nothing(tmp_path: Path) -> None:
    inbox, app_home = tmp_path / "in", tmp_path / "home"
    for number in range(3):
        write(inbox, number)
    home = AppHome(app_home / "shop")
    log = TableLog(home.table("sums").log)
    command = [sys.executable, "-c", CHILD, str(inbox), str(app_home)]
    with (tmp_path / "out").open("w") as out, subprocess.Popen(command, stdout=out) as child:
        assert wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, 120)
        taken = Lease(home, host=ELSEWHERE).take()
        before = log.batches()
        child.send_signal(signal.SIGCONT)
        child.wait(120)
    said = (tmp_path / "out").read_text()
    assert f"LEASE LOST sums 1 epoch 1, taken over by pid {os.getpid()} on elsewhere" in said
    assert log.batches() == before == [0]
    assert (taken.epoch, home.storage.list("lease")) == (2, ["1.json", "2.json"])
    taken.release()

    names: dict[str, object] = {}
    exec(APP, names)
    again = names["app"](inbox)  # type: ignore[operator]
    with again.start(home=app_home, spark=shared_session()) as handle:
        handle.drain()
        assert [(row["region"], row["n"]) for row in handle.table("sums").rows()] == [("eu", 9)]
        assert [manifest.epoch for manifest in log.after(-1)] == [1, 3, 3]
