"""kill -9 of the whole process at chosen points of a batch: nothing is lost, and nothing is applied twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease_files import LeaseFiles
from keyfold.engine.storage.processes import alive
from keyfold.fault_points import FaultPoint
from tests.engine.children import environment

pytestmark = pytest.mark.jvm

CHILD = '''
import json, os, signal, sys
from pathlib import Path

import keyfold as kf
from keyfold.engine.storage import lease_takeover
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease_files import LeaseFiles
from keyfold.fault_points import FaultPoint, handled_by

inbox, place, point, number = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
lease_takeover.ORPHAN_SECONDS = 2.0


def lease():
    return json.loads(LeaseFiles(AppHome(place / "shop").storage).newest().content)


def die(reached, facts):
    """When `sums` has come to the point in the batch that is meant."""
    if (reached, facts) != (point, {"table": "sums", "batch": number}):
        return
    if reached == FaultPoint.PARTS_WRITTEN:
        # A JVM that does not notice that it is alone.
        os.kill(lease()["jvm"]["pid"], signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGKILL)


app = kf.App("shop")
source = kf.files(inbox, maxFilesPerTrigger=1)
SCHEMA = "id bigint, region string, amount bigint, at timestamp"
orders = app.stream("orders", source, schema=SCHEMA, time="at")
orders.by("region").table("sums", n="count(*)", total="sum(amount)", ids="count(distinct id)", ttl="365 days")
orders.by("region").table("folds", {
    "chain": kf.fold(zero={"h": "0L"}, update={"h": "(state.h * 31 + id) % 1000003"}, result="state.h"),
    "n": "count(*)",
})
with handled_by(die), app.start(home=place, master="local[2]", driver_memory="1g") as handle:
    print(json.dumps({"started": lease()}), flush=True)
    handle.drain()
    tables = {t: handle.table(t).rows() for t in ("sums", "folds")}
    print(json.dumps({
        "tables": tables,
        "rejected": {t: [r["raw"] for r in handle.rejected(t)] for t in ("sums", "folds", "orders")},
        "status": handle.status()["tables"],
        "streams": handle.status()["streams"],
    }, default=str), flush=True)
'''


def write_inbox(inbox: Path) -> list[list[str]]:
    """Files of one batch each, in the order they are read in, with rows that can't be used among them."""
    chance = random.Random(9)
    inbox.mkdir()
    files = []
    for number in range(8):
        rows = [
            {"id": number * 100 + n, "region": chance.choice(["eu", "us", "asia", None]), "amount": n}
            for n in range(60)
        ]
        lines = [json.dumps(r | {"at": f"2026-01-01T00:{number:02d}:00Z"}) for r in rows]
        lines.insert(30, f'{{"id": {number}, "reg')
        file = inbox / f"{number}.json"
        file.write_text("\n".join(lines) + "\n")
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
        files.append(lines)
    return files


def recount(files: list[list[str]]) -> tuple[dict[str, dict[str, int]], int, int]:
    """What the tables must hold, how many rows have no key, and how many lines do not parse."""
    expected: dict[str, dict[str, int]] = {}
    without_key = broken = 0
    for line in (line for lines in files for line in lines):
        try:
            row = json.loads(line)
        except ValueError:
            broken += 1
            continue
        if row["region"] is None:
            without_key += 1
            continue
        one = expected.setdefault(row["region"], {"n": 0, "total": 0, "ids": 0, "chain": 0})
        one["n"] += 1
        one["ids"] += 1
        one["total"] += row["amount"]
        one["chain"] = (one["chain"] * 31 + row["id"]) % 1_000_003
    return expected, without_key, broken


class Child:
    """A process that runs the app, and what it said before it ended."""

    def __init__(self, directory: Path, point: str = "none", number: int = -1) -> None:
        script = directory / "child.py"
        script.write_text(CHILD)
        command = [
            sys.executable,
            str(script),
            str(directory / "in"),
            str(directory / "home"),
            point,
            str(number),
        ]
        out, errors = directory / "out", directory / "errors"
        with out.open("w") as said, errors.open("w") as complained:
            # Files and no pipes: an orphaned JVM holds on to what it inherited.
            done = subprocess.run(
                command, stdout=said, stderr=complained, timeout=120, check=False, env=environment()
            )
        self.code, self.errors = done.returncode, errors.read_text()
        self.said: dict[str, Any] = {}
        for line in out.read_text().splitlines():
            self.said |= json.loads(line)


def newest_lease(place: Path) -> dict[str, Any]:
    newest = LeaseFiles(AppHome(place / "home" / "shop").storage).newest()
    assert newest is not None
    return json.loads(newest.content)


@pytest.mark.timeout(900)
def test_killed_at_every_point_of_a_batch_and_started_again(tmp_path: Path) -> None:
    files = write_inbox(tmp_path / "in")
    points = [
        FaultPoint.PARTS_WRITTEN,
        FaultPoint.BATCH_PUBLISHED,
        FaultPoint.VIEW_WRITTEN,
        FaultPoint.VIEW_COMMITTED,
        FaultPoint.BATCH_DONE,
    ]
    owners: list[dict[str, Any]] = []
    for number, point in enumerate(points, start=1):
        killed = Child(tmp_path, point, number)
        assert killed.code == -signal.SIGKILL, f"{point}: {killed.errors}"
        owners.append(killed.said["started"])
        # The lease of the dead owner is still there, and the next one takes it over.
        left = newest_lease(tmp_path)
        assert (left["epoch"], left["jvm"]) == (number, owners[-1]["jvm"])
        begun = {int(p.name) for p in (tmp_path / "home/shop/tables/sums/checkpoint/offsets").glob("[0-9]*")}
        # The view follows the log while the next batches run.
        assert max(begun) >= number, f"{point}: the batch under way is the one that was meant"

    last = Child(tmp_path)
    assert last.code == 0, last.errors
    assert len({owner["jvm"]["pid"] for owner in [*owners, last.said["started"]]}) == 6
    assert not any(alive(owner["jvm"]) for owner in owners)
    assert newest_lease(tmp_path)["released"]

    expected, without_key, broken = recount(files)
    sums = {r["region"]: r for r in last.said["tables"]["sums"]}
    folds = {r["region"]: r for r in last.said["tables"]["folds"]}
    assert {k: [r["n"], r["total"], r["ids"]] for k, r in sums.items()} == {
        k: [e["n"], e["total"], e["ids"]] for k, e in expected.items()
    }
    assert {k: [r["n"], r["chain"]] for k, r in folds.items()} == {
        k: [e["n"], e["chain"]] for k, e in expected.items()
    }
    rejected = last.said["rejected"]
    assert without_key
    assert {name: len(raws) for name, raws in rejected.items()} == {
        "sums": without_key,
        "folds": without_key,
        "orders": without_key + broken,
    }
    assert last.said["streams"]["orders"]["rejected"] == broken == len(files)
    assert Counter(rejected["sums"]) == Counter(rejected["folds"])
    # Only `sums` is killed at a chosen batch. For the other table the kill may fall between Spark's log of
    # files and its log of batches; it then reads two files in one batch: other numbers, the same rows.
    assert last.said["status"]["sums"]["batch"] >= 7
