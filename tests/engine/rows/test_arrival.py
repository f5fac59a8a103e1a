"""The order of arrival: by file and position, whatever the number of cores, and again after a crash."""

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
from keyfold.engine.start import start
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm

CHILD = """
import json, os, signal, sys
from pathlib import Path

import keyfold as kf
from keyfold.engine.storage import lease_takeover
from keyfold.fault_points import FaultPoint, handled_by

directory, master, split, dies = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "dies"
lease_takeover.ORPHAN_SECONDS = 2.0


def die(reached, facts):
    if dies and reached == FaultPoint.BATCH_DONE and facts["table"] == "texts":
        os.kill(os.getpid(), signal.SIGKILL)


app = kf.App("order")
text = kf.fold(zero={"t": "''"}, update={"t": "concat(state.t, x, ' ')"}, result="state.t")
schema = "k string, x string, at timestamp"
left, right = (
    app.stream(name, kf.files(str(directory / name), format=format), schema=schema, time="at", late="1 day")
    for name, format in (("left", "json"), ("right", "csv"))
)
left.by("k").table("texts", t=text)
left.by("k").latest().table("newest", x="x")
left.by("k").last(3).table("three", xs="collect_list(x)")
right.union(left).by("k").table("both", t=text)
spark = {"spark.sql.files.maxPartitionBytes": split}
with handled_by(die), app.start(
    home=directory / "home", master=master, driver_memory="1g", spark=spark
) as handle:
    handle.drain()
    tables = ("texts", "newest", "three", "both")
    print(json.dumps({t: handle.table(t).rows() for t in tables}, default=str), flush=True)
"""


def child(directory: Path, master: str, split: str, *, dies: bool) -> dict[str, Any]:
    """Runs the app in a process of its own, to the end of its first batch or of all."""
    script = directory / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, script, directory, master, split, "dies" if dies else "-"]
    with (directory / "out").open("w") as out, (directory / "errors").open("w") as errors:
        # Files and no pipes: an orphaned JVM holds on to what it inherited.
        done = subprocess.run(command, stdout=out, stderr=errors, timeout=180, check=False)
    assert done.returncode == (-signal.SIGKILL if dies else 0), (directory / "errors").read_text()
    return {} if dies else dict(json.loads((directory / "out").read_text()))


def write(file: Path, names: list[str], second: int) -> None:
    """A file of rows with one event time, last modified at this second."""
    file.parent.mkdir(exist_ok=True)
    rows = [{"k": "a", "x": x, "at": "2026-01-01T00:00:00Z"} for x in names]
    if file.suffix == ".json":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        file.write_text("k,x,at\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    os.utime(file, (1_000_000 + second, 1_000_000 + second))


# In the order in which they were last modified. Spark packs the large ones first.
SIZES = {"c": 3, "a": 40, "d": 1, "b": 17}


@pytest.mark.timeout(400)
def test_rows_of_one_time_are_folded_by_file_and_line_after_a_crash_and_on_other_cores(
    tmp_path: Path,
) -> None:
    expected: dict[str, list[str]] = {"left": [], "right": []}
    for second, (name, lines) in enumerate(SIZES.items()):
        for side, suffix in (("left", "json"), ("right", "csv")):
            rows = [f"{side[0]}{name}{n}" for n in range(lines)]
            write(tmp_path / side / f"{name}.{suffix}", rows, second)
            expected[side] += rows
    child(tmp_path, "local[2]", "128m", dies=True)
    write(tmp_path / "left" / "later.json", ["later"], 100)
    # Files in parts of a few lines each.
    found = child(tmp_path, "local[4]", "300", dies=False)
    both = [*expected["right"], *expected["left"], "later"]
    assert [row["t"].split() for row in found["texts"]] == [[*expected["left"], "later"]]
    assert [row["x"] for row in found["newest"]] == ["later"]
    assert [row["xs"] for row in found["three"]] == [[*expected["left"][-2:], "later"]]
    assert [row["t"].split() for row in found["both"]] == [both]


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_the_order_of_files_is_that_of_their_times_however_they_are_split(
    format: str, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    expected = []
    for second, (name, lines) in enumerate(SIZES.items()):
        xs = [f"{name}{n}" for n in range(lines)]
        expected += xs
        file = tmp_path / "in" / f"{name}.{format}"
        if format == "parquet":
            file.parent.mkdir(exist_ok=True)
            pq.write_table(pa.table({"k": ["a"] * lines, "x": xs}), file, row_group_size=5)
            os.utime(file, (1_000_000 + second, 1_000_000 + second))
        else:
            write(file, xs, second)
    app = kf.App(f"split_{format}")
    schema = "k string, x string" + ("" if format == "parquet" else ", at timestamp")
    rows = app.stream("rows", kf.files(str(tmp_path / "in"), format=format), schema=schema)
    text = kf.fold(zero={"t": "''"}, update={"t": "concat(state.t, x, ' ')"}, result="state.t")
    rows.by("k").table("texts", t=text)
    for split, cores in (("128m", "1"), ("128m", "7"), ("300", "2"), ("64", "3")):
        settings = {"spark.sql.files.maxPartitionBytes": split, "spark.sql.files.minPartitionNum": cores}
        home = tmp_path / f"home-{split}-{cores}"
        with start(app.spec(), home=home, spark=shared_session(), settings={"spark": settings}) as handle:
            handle.drain()
            assert [row["t"].split() for row in handle.table("texts").rows()] == [expected]
