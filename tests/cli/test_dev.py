"""`keyfold dev`: an app is started again in the same JVM when its files change."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from keyfold.engine.jvm.short_run import FIRST_TIER
from keyfold.engine.polling import wait_until
from tests.cli.conftest import write
from tests.cli.test_run import ENVIRONMENT, KEYFOLD
from tests.cli.test_start import alive

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf
from words import COUNTED

app = kf.App("shop")
orders = app.stream("orders", kf.rows([{"k": "a", "v": 1}, {"k": "a", "v": 5}]), schema="k string, v bigint")
orders.by("k").table("totals", n=COUNTED)
"""


class Dev:
    """A `keyfold dev` in the background, and what it said."""

    def __init__(self, where: Path) -> None:
        self.where, self.errors = where, where / "stderr.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*KEYFOLD, "dev", "shop.py", "--json"],
                cwd=where,
                env=ENVIRONMENT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def until(self, text: str, times: int = 1) -> None:
        def said() -> bool:
            return self.errors.read_text().count(text) >= times or self.process.poll() is not None

        assert wait_until(said, 180)
        assert self.errors.read_text().count(text) >= times, self.errors.read_text()

    @property
    def home(self) -> Path:
        return Path(re.findall(r"shop is running in (.*)/shop: ", self.errors.read_text())[-1])

    def n(self) -> object:
        """The one row's value, as another process reads it."""
        words = [*KEYFOLD, "get", "shop.totals", "a", "--home", str(self.home), "--wait", "60s", "--json"]
        found = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        return re.findall(r'"n": (\S+?),?\n', found.stdout)

    def java(self) -> list[psutil.Process]:
        return [c for c in psutil.Process(self.process.pid).children() if c.name() == "java"]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    write(tmp_path / "words.py", 'COUNTED = "count(*)"\n')
    write(tmp_path / "shop.py", APP)
    started = Dev(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.kill()
    started.process.communicate()


def test_an_edited_app_starts_again_in_the_same_jvm(dev: Dev) -> None:
    dev.until("keyfold: ready in")
    assert dev.n() == ["2"]
    [java] = dev.java()
    assert FIRST_TIER in java.cmdline(), "there is little input, for which optimized code comes too late"

    write(dev.where / "words.py", 'COUNTED = "sum(v)"\n')
    dev.until("keyfold: ready in", 2)
    assert dev.n() == ["6"], "all input is read again, by the new definition"
    assert dev.java() == [java]

    write(dev.where / "shop.py", APP + "\nno python")
    dev.until("is not Python")
    assert dev.n() == ["6"], "the old app continues"
    write(dev.where / "shop.py", APP.replace("n=COUNTED", 'n="sum(lost)"'))
    dev.until("keyfold: shop keeps running unchanged; waiting until shop.py changes", 2)
    assert "lost" in dev.errors.read_text()
    assert dev.n() == ["6"], "what only Spark can refuse does not stop the old app either"
    write(dev.where / "shop.py", APP.replace("n=COUNTED", 'n="max(v)"'))
    dev.until("keyfold: ready in", 3)
    assert dev.n() == ["5"]
    assert dev.java() == [java]

    home = dev.home
    os.kill(dev.process.pid, signal.SIGINT)
    out, _ = dev.process.communicate(timeout=120)
    assert dev.process.returncode == 0
    assert not alive(java)
    assert not home.exists()
    last = json.loads(out)
    assert (last["app"], last["starts"], last["ended"]) == ("shop", 3, "signal")
    assert last["tables"]["totals"]["keys"] == 1
    assert "Traceback" not in dev.errors.read_text()
