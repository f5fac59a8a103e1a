"""Retractions find the rows that they retract by the upstream key, whatever their columns say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import drive
from tests.engine.children import environment

pytestmark = pytest.mark.jvm

CHILD = """
import json, os, signal, sys
from pathlib import Path

import keyfold as kf
from keyfold.engine.storage import lease_takeover
from keyfold.fault_points import FaultPoint, handled_by

inbox, place, master, dies = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "dies"
lease_takeover.ORPHAN_SECONDS = 2.0


def die(reached, facts):
    if dies and reached == FaultPoint.BATCH_PUBLISHED and facts["table"] == "sums":
        os.kill(os.getpid(), signal.SIGKILL)


app = kf.App("shop")
rows = app.stream("rows", kf.files(inbox, maxFilesPerTrigger=2), schema="k string, x double")
sums = rows.by("k").table("sums", total="sum(x)")
names = rows.by("k").table("names", n="count(*)")
held = sums.changes()
held.by(all="'all'").table("aggregated", highest="max(total)", every="collect_list(total)")
held.by(all="'all'").top(5, by="total desc").table("ranked", total="total")
held.by("k").latest().table("newest", total="total")
held.enrich(names, on="k", how="left").by(all="'all'").table("enriched", every="collect_list(total)")
# Two readings of one table: each row is there twice, and both are retracted.
held.union(sums.changes()).by(all="'all'").table("twice", every="collect_list(total)")
sums.join_table(names, "joined")
with handled_by(die), app.start(home=place, master=master, driver_memory="1g") as handle:
    handle.drain()
    tables = [table.name for table in app.spec().tables]
    found = {t: handle.table(t).rows() for t in tables}
    found["rejected"] = {t: handle.rejected(t) for t in tables}
    print(json.dumps(found, default=str), flush=True)
"""


def child(directory: Path, master: str, *, dies: bool) -> dict[str, Any] | None:
    """Runs the app in a process of its own, until its first batch is published or to the end."""
    script = directory / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, script, directory / "in", directory / "home", master, "dies" if dies else "-"]
    with (directory / "out").open("w") as out, (directory / "errors").open("w") as errors:
        # Files and no pipes: an orphaned JVM holds on to what it inherited.
        done = subprocess.run(command, stdout=out, stderr=errors, timeout=180, check=False, env=environment())
    assert done.returncode == (-signal.SIGKILL if dies else 0), (directory / "errors").read_text()
    return None if dies else dict(json.loads((directory / "out").read_text()))


@pytest.mark.timeout(400)
def test_a_sum_that_differs_in_its_last_bit_when_it_is_computed_again_leaves_no_row_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    # The first batch: 1e16 + (1 + 1) where each file is a task's, (1e16 + 1) + 1 = 1e16 in one task, which
    # begins with the larger file.
    for number, xs in enumerate(([1e16], [1.0, 1.0], [4.0], [8.0])):
        file = tmp_path / "in" / f"{number}.json"
        padding = " " * (200 if number == 0 else 0)
        file.write_text("".join(json.dumps({"k": "a", "x": x}) + f"{padding}\n" for x in xs))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))

    child(tmp_path, "local[2]", dies=True)
    found = child(tmp_path, "local[1]", dies=False)
    assert found is not None
    (total,) = (row["total"] for row in found["sums"])
    assert total == 1e16 + 12, "the first batch was computed again in another order"
    assert [row["every"] for row in found["aggregated"]] == [[total]]
    assert [row["highest"] for row in found["aggregated"]] == [total]
    assert [row["total"] for row in found["ranked"]] == [total]
    assert [row["total"] for row in found["newest"]] == [total]
    assert [row["every"] for row in found["enriched"]] == [[total]]
    assert [row["every"] for row in found["twice"]] == [[total, total]]
    assert [(row["total"], row["n"]) for row in found["joined"]] == [(total, 5)]
    assert found["rejected"] == {table: [] for table in found["rejected"]}


def test_rows_that_look_alike_are_retracted_each_by_itself() -> None:
    """Three upstream rows with equal columns in one group: one changes, one moves, one goes."""
    app = kf.App("alike")
    rows = app.stream("rows", kf.rows([]), schema="id string, g string, x double")
    items = rows.by("id").latest().table("items").changes().where("x > 0")
    live = items.by("id").latest().table("live")
    live.changes().by("g").table("lists", xs="sort_array(collect_list(x))")
    live.changes().by("g").top(2, by="x desc").table("top", x="x")
    with drive(app) as d:

        def lists() -> dict[str, list[float]]:
            return {row["g"]: row["xs"] for row in d.rows("lists")}

        def row(id: str, g: str, x: float) -> dict[str, Any]:
            return {"id": id, "g": g, "x": x}

        d.push("rows", [row(id, "a", 1.0) for id in "123"])
        assert lists() == {"a": [1.0, 1.0, 1.0]}
        d.changes("top")
        d.push("rows", [row("1", "a", 2.0), row("2", "b", 1.0), row("3", "a", -1.0)])
        assert lists() == {"a": [2.0], "b": [1.0]}
        d.crash()
        d.push("rows", [row("1", "b", 1.0), row("2", "b", -1.0)])
        d.push("rows", [row("1", "b", 1.0), row("3", "b", 1.0)])
        assert lists() == {"b": [1.0, 1.0]}
        assert [(r["g"], r["rank"], r["x"]) for r in d.rows("top")] == [("b", 1, 1.0), ("b", 2, 1.0)]
        assert d.rejected("lists") == d.rejected("top") == []
        # The row with rank 1 is another now, with the same columns: nothing that readers can see.
        d.changes("top")
        d.push("rows", [row("2", "b", 1.0)])
        assert d.changes("top") == []


def test_rows_of_several_readings_and_of_an_append_only_stream_are_told_apart() -> None:
    app = kf.App("readings")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    more = app.stream("more", kf.rows([]), schema="k string, x int")
    newest = rows.by("k").latest().table("newest", x="x")
    once, again = newest.changes().select("k", "x"), newest.changes().select("k", x="x + 0")
    once.union(again).union(more).by(all="'all'").table("lists", xs="sort_array(collect_list(x))")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": "b", "x": 1}])
        d.push("more", [{"k": "a", "x": 1}])
        assert d.rows("lists") == [{"all": "all", "xs": [1] * 5}]
        d.push("rows", [{"k": "a", "x": 2}])
        assert d.rows("lists") == [{"all": "all", "xs": [1, 1, 1, 2, 2]}]
        d.crash()
        d.push("rows", [{"k": "a", "x": 3}, {"k": "b", "x": 4}])
        assert d.rows("lists") == [{"all": "all", "xs": [1, 3, 3, 4, 4]}]
        assert d.rejected("lists") == []
