"""Savepoints of real apps: made while batches run, restored, cloned and verified against a recount."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine import start
from keyfold.engine.savepoint import clone, restore, state_check, verify
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm
BATCHES = 5


def shop(inbox: Path, name: str = "shop") -> kf.App:
    app = kf.App(name)
    rows = app.stream(
        "rows",
        kf.files(inbox, maxFilesPerTrigger=1),
        schema="k string, x long, t timestamp",
        time="t",
        late="1 hour",
    )
    counts = rows.by("k").table("counts", n="count(*)", total="sum(x)")
    counts.changes().by(n="n").table("keys_by_count", keys="count(*)")
    rows.by("k").tumbling("1 minute").table("minutes", n="count(*)")
    return app


def write(inbox: Path, number: int) -> None:
    inbox.mkdir(exist_ok=True)
    lines = [
        f'{{"k": "{key}", "x": {number}, "t": "2026-01-01T00:{number:02d}:0{key}Z"}}'
        for key in range(number % 4 + 1)
    ]
    temporary = inbox / f".{number}"
    temporary.write_text("\n".join(lines) + "\n")
    temporary.rename(inbox / f"{number:02d}.json")


def expected(files: int) -> dict[str, Any]:
    rows = [(str(key), number) for number in range(files) for key in range(number % 4 + 1)]
    counts = Counter(key for key, _ in rows)
    return {
        "counts": {key: (n, sum(x for k, x in rows if k == key)) for key, n in counts.items()},
        "keys_by_count": dict(Counter(counts.values())),
        "minutes": len(set(rows)),
    }


def found(handle: Any) -> dict[str, Any]:
    return {
        "counts": {row["k"]: (row["n"], row["total"]) for row in handle.table("counts").rows()},
        "keys_by_count": {row["n"]: row["keys"] for row in handle.table("keys_by_count").rows()},
        "minutes": len(handle.table("minutes").rows()),
    }


def started(app: kf.App, home: Path) -> Any:
    return start.start(app.spec(), spark=shared_session(), home=home)


def test_a_savepoint_of_a_running_app_is_consistent_and_what_came_since_is_processed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    for number in range(BATCHES):
        write(inbox, number)
    with started(shop(inbox), home) as handle:
        assert "rows" in handle.queries, "the log of a stream is part of it"
        # While batches run, one after the other, and from another thread as from another process.
        made: list[int] = []
        asked = threading.Thread(
            target=lambda: made.append(
                main(["savepoint", "create", "asked", "--live", "--home", str(home), "--json"])
            )
        )

        def also_now(point: FaultPoint, facts: dict[str, Any]) -> None:
            """Asks for the other while this one is in the making."""
            if point is FaultPoint.SAVEPOINT_READ and facts["name"] == "early":
                asked.start()
                asked.join(timeout=3)  # it can only wait

        with handled_by(also_now):
            early = handle.savepoint("early")
        handle.drain()
        asked.join()
        assert made == [0], capsys.readouterr()
        assert found(handle) == expected(BATCHES)
        for number in range(BATCHES, BATCHES * 2):
            write(inbox, number)
        handle.drain()
        assert found(handle) == expected(BATCHES * 2)
        handle.savepoint("full")
    app_home = AppHome(home / "shop")
    for name in ("early", "asked", "full"):
        savepoint = Savepoints(app_home).find(name)
        assert not verify.damages(savepoint, Savepoints(app_home).storage(name), silent)
        assert savepoint.live
        states = state_check.states(shared_session(), app_home, name, savepoint.tables)
        assert state_check.differences(savepoint, states) == []
    counts = savepoint.tables["counts"].state
    assert counts
    assert state_check.rows(counts) >= 1
    # As if the state of one key had another value: other bytes, and so another sum.
    other = (replace(counts[0], checksum="0"), *counts[1:])
    changed = {**savepoint.tables, "counts": replace(savepoint.tables["counts"], state=other)}
    differing = state_check.differences(replace(savepoint, tables=changed), states)
    assert [one.path for one in differing] == ["tables/counts/checkpoint/state"]
    assert set(early["tables"]) == {"counts", "keys_by_count", "minutes"}
    green = local_app_home(tmp_path / "clone", "green")
    clone.clone(app_home, "early", green, silent)
    with started(shop(inbox, "green"), tmp_path / "clone") as handle:
        handle.drain()
        assert found(handle) == expected(BATCHES * 2)
    entry = restore.restore(app_home, "asked", (), None, silent)
    with started(shop(inbox), home) as handle:
        handle.drain()
        assert found(handle) == expected(BATCHES * 2)
    restore.restore(app_home, entry["undo"], (), None, silent)
    with started(shop(inbox), home) as handle:
        assert found(handle) == expected(BATCHES * 2), "nothing had to be processed"
