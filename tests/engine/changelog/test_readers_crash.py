"""kill -9 while changes go from table to table: each reader gets each of them once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.children import environment

pytestmark = pytest.mark.jvm

CHILD = """
import json, os, signal, sys
from pathlib import Path

import keyfold as kf
from keyfold.engine.storage import lease_takeover
from keyfold.fault_points import FaultPoint, handled_by

inbox, place, point, number = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
lease_takeover.ORPHAN_SECONDS = 2.0


def at_batch(facts):
    return facts == {"table": "sums", "batch": number}


MEANT = {
    "parts written": (FaultPoint.PARTS_WRITTEN, at_batch),
    "batch published": (FaultPoint.BATCH_PUBLISHED, at_batch),
    "batch done": (FaultPoint.BATCH_DONE, at_batch),
    "reader published": (FaultPoint.BATCH_PUBLISHED, lambda facts: facts["table"] == "log"),
    "reader done": (FaultPoint.BATCH_DONE, lambda facts: facts["table"] == "log"),
}


def die(reached, facts):
    if point in MEANT and reached == MEANT[point][0] and MEANT[point][1](facts):
        os.kill(os.getpid(), signal.SIGKILL)


app = kf.App("shop")
rows = app.stream("rows", kf.files(inbox, maxFilesPerTrigger=1), schema="k string, x bigint")
sums = rows.by("k").table("sums", n="count(*)", total="sum(x)")
sums.changes(previous=True).by("k").table("log", changes="count(*)", totals="sum(total)")
sums.changes().by(all="'all'").table("whole", keys="count(*)", total="sum(total)")
with handled_by(die), app.start(home=place, master="local[2]", driver_memory="1g") as handle:
    handle.drain()
    tables = ("sums", "log", "whole")
    print(json.dumps({t: handle.table(t).rows() for t in tables}, default=str), flush=True)
"""


def child(directory: Path, point: str = "none", number: int = -1) -> tuple[int, str, str]:
    """Runs the app in a process of its own: how it ended, what it said, what it complained of."""
    script = directory / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, script, directory / "in", directory / "home", point, str(number)]
    with (directory / "out").open("w") as out, (directory / "errors").open("w") as errors:
        # Files and no pipes: an orphaned JVM holds on to what it inherited.
        done = subprocess.run(command, stdout=out, stderr=errors, timeout=180, check=False, env=environment())
    return done.returncode, (directory / "out").read_text(), (directory / "errors").read_text()


@pytest.mark.timeout(900)
def test_killed_while_changes_go_from_table_to_table(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    files = [{"a": n, "b": 10 * n} | ({"c": 7} if n % 2 else {}) for n in range(8)]
    for number, amounts in enumerate(files):
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("".join(json.dumps({"k": k, "x": x}) + "\n" for k, x in amounts.items()))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))

    points = ("parts written", "batch published", "batch done", "reader published", "reader done")
    for number, point in enumerate(points, 1):
        code, _, errors = child(tmp_path, point, number)
        assert code == -signal.SIGKILL, f"{point}: {errors}"

    code, said, errors = child(tmp_path)
    assert code == 0, errors
    found: dict[str, list[dict[str, Any]]] = json.loads(said)
    totals: dict[str, list[int]] = {}
    for amounts in files:
        for k, x in amounts.items():
            so_far = totals.setdefault(k, [])
            so_far.append(x + (so_far[-1] if so_far else 0))
    assert [(r["k"], r["total"]) for r in found["sums"]] == [(k, t[-1]) for k, t in sorted(totals.items())]
    # Every change once: a lost or repeated one shows in the count, another one in the sum.
    assert [(r["k"], r["changes"], r["totals"]) for r in found["log"]] == [
        (k, len(t), sum(t)) for k, t in sorted(totals.items())
    ]
    assert [(r["keys"], r["total"]) for r in found["whole"]] == [(3, sum(t[-1] for t in totals.values()))]
