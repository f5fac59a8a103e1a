"""A failure that is not a row's fault rejects no row: the query stops, and resumes once the cause is gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import local_app_home
from keyfold.kernel import build
from keyfold.read import side_outputs
from keyfold.views.reader import TableReader

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf

app = kf.App("shop")
orders = app.stream("orders", kf.files("in"), schema="k string, x int, at timestamp", time="at")
orders.by("k").tumbling("1 minute").table("totals", n="count(*)", total="sum(x)", keep="1 day")
"""
KEEPS = "stored.updateValue("
FAILS = 'if (new java.io.File("fails").exists) throw new NullPointerException("the store is broken"); '


def with_a_fault(place: Path) -> None:
    """A kernel whose state store fails to keep closed windows while there is a file `fails`."""
    source = (build.SOURCES / "scala" / "window" / "KeptWindows.scala").read_text()
    assert source.count(KEEPS) == 1
    (place / "KeptWindows.scala").write_text(source.replace(KEEPS, FAILS + KEEPS))
    kernel, classes = build.kernel_jar(), place / "classes"
    jars = Path(pyspark.__file__).parent / "jars"
    with zipfile.ZipFile(kernel) as jar:
        jar.extractall(classes)
    compiler = ["-cp", f"{jars}/*:{kernel}", "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
    subprocess.run(
        [build.java(), "-Xss8m", *compiler, "-d", str(classes), str(place / "KeptWindows.scala")],
        check=True,
    )
    shutil.make_archive(str(place / "kernel"), "zip", classes)
    (place / "kernel.zip").rename(place / kernel.name)


def run(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keyfold", "run", "app.py", "--drain"]
    environment = {**os.environ, "KEYFOLD_KERNEL_DIR": str(place)}
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=280
    )


def test_a_store_that_fails_stops_the_query_and_no_row_or_window_is_rejected(tmp_path: Path) -> None:
    with_a_fault(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "in").mkdir()
    rows = [{"k": "a", "x": n, "at": f"2026-01-01T00:0{n}:00Z"} for n in range(3)]
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "fails").touch()
    stopped = run(tmp_path)
    home = local_app_home(tmp_path / ".keyfold", "shop")
    assert side_outputs.read_rejected(TableLog(home.table("totals").log)) == []
    assert stopped.returncode == 1, stopped.stdout + stopped.stderr
    assert "the store is broken" in stopped.stderr
    assert "not because of a row" in stopped.stderr

    (tmp_path / "fails").unlink()
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert side_outputs.read_rejected(TableLog(home.table("totals").log)) == []
    store = home.views.open(read_only=True)
    try:
        assert sorted(row["total"] for row in TableReader(store, "totals").rows()) == [0, 1, 2]
    finally:
        store.close()
