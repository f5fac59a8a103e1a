"""A run keeps to itself: modes of its files, secrets of its settings, what it leaves when it is killed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from keyfold.engine.polling import wait_until
from tests.cli.test_run import ENVIRONMENT, KEYFOLD, write

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

APP = """
import keyfold as kf

def with_jar(df):
    loader = df.sparkSession._jsparkSession.artifactManager().classloader()
    assert loader.getResource("mine.txt") is not None, "the user's jar is not there"
    return df

app = kf.App("shop", snapshot_every=1)
feed = kf.files("data", maxFilesPerTrigger=1, api_key="s3cret")
orders = app.stream("orders", feed, schema="region string, amount double, at timestamp", time="at")
totals = orders.transform(with_jar).by("region").table("totals", n="count(*)")
totals.to(kf.files("out"))
totals.changes().by(all="1").table("sum", n="sum(n)")
orders.by("region").tumbling("1 minute").table("minutes", n="count(*)")
"""
SETTINGS = {
    "spark.hadoop.fs.s3a.secret.key": "s3cret ä=\\",
    "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
    "spark.driver.extraJavaOptions": "-Dmy.option=added",
    "spark.jars": "mine.jar",
}


class Run:
    """`keyfold run`, with a temporary directory of its own and a umask that lets everybody read."""

    def __init__(self, where: Path, *words: str) -> None:
        (where / "temporary").mkdir(exist_ok=True)
        self.environment = {
            **ENVIRONMENT,
            "TMPDIR": str(where / "temporary"),
            "SPARK_SUBMIT_OPTS": f"{ENVIRONMENT['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={where / 'temporary'}",
            "KEYFOLD_SPARK": json.dumps(SETTINGS),
        }
        self.process = subprocess.Popen(
            [*KEYFOLD, "run", "shop.py", *words],
            cwd=where,
            env=self.environment,
            umask=0o002,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def java(self) -> psutil.Process:
        return next(p for p in psutil.Process(self.process.pid).children() if p.name() == "java")

    def kill(self) -> None:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            process.kill()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        if run.process.poll() is None:
            run.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(home: Path) -> list[str]:
    """Below the home; the place of a run's temporary files is closed as a whole."""
    found = [home, *(p for p in home.rglob("*") if ".tmp" not in p.parent.parts)]
    modes = {}
    for path in found:
        try:
            modes[str(path.relative_to(home))] = mode(path)
        except FileNotFoundError:
            continue
    return [f"{oct(found)} {name}" for name, found in modes.items() if found & 0o077]


def test_a_run_is_private_and_a_killed_one_leaves_nothing(tmp_path: Path, runs: list[Run]) -> None:
    home = tmp_path / ".keyfold"
    (tmp_path / "data").mkdir()
    row = '{"region": "eu", "amount": 1, "at": "2026-01-01T00:0%d:00Z"}\nnot json\n'
    for order, number in enumerate((9, 1, 2, 3, 4, 5)):
        file = write(tmp_path / "data" / f"{number}.json", row % number)
        os.utime(file, (1_700_000_000 + order,) * 2)
    write(tmp_path / "shop.py", APP)
    with zipfile.ZipFile(tmp_path / "mine.jar", "w") as jar:
        jar.writestr("mine.txt", "here")
    run = Run(tmp_path)
    runs.append(run)

    def snapshots() -> list[Path]:
        return list((home / "shop").glob("tables/totals/checkpoint/state/**/SSTs/*.sst"))

    def done() -> bool:
        outputs = ("tables/minutes/log/data/*/part-late*", "streams/orders/log/data/*/part-rejected*")
        return (
            bool(snapshots())
            and all(any((home / "shop").glob(part)) for part in outputs)
            and any(tmp_path.glob("out/*.json"))
        )

    assert wait_until(lambda: done() or run.process.poll() is not None, 180)
    assert run.process.poll() is None, run.process.communicate()[1]

    # The last snapshot may be on its way, with files that Hadoop has just copied.
    assert wait_until(lambda: not open_to_others(home), 20), open_to_others(home)
    assert {path.name for path in home.iterdir()} >= {"spark.log", "java.log", "shop", ".tmp"}
    assert {oct(mode(path)) for path in (tmp_path / "out").glob("*.json")} == {"0o644"}, "as Spark makes them"
    assert mode(tmp_path / "out") == 0o755, "a sink's files are the user's"

    command = " ".join(run.java.cmdline())
    assert "-Dmy.option=added" in command
    assert "log4j2.configurationFile" in command
    assert "s3cret" not in command
    assert "s3cret" not in (home / "shop" / "app.json").read_text()
    [place] = (home / ".tmp").glob("run-*")
    assert not list(place.glob("*.properties"))
    assert any(place.glob("librocksdbjni*")), "what Java unpacks is there too"
    assert list((tmp_path / "temporary").iterdir()) == []

    run.kill()
    again = Run(tmp_path, "--drain")
    runs.append(again)
    assert wait_until(lambda: not place.exists() or again.process.poll() is not None, 120)
    said = again.process.communicate(timeout=180)[1]
    assert again.process.returncode == 0, said
    assert not place.exists()
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not any((home / ".tmp").glob("run-*")), "a run that ended left its place"
    assert not (tmp_path / "spark-warehouse").exists()
