"""run --standby: a second process waits for the first to end, and resumes where it stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError
from tests.cli.conftest import SHOP, write
from tests.leases import holder

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


def started(tmp_path: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "keyfold", *words, "shop.py"]
    with (tmp_path / f"{words[-1].lstrip('-')}.log").open("wb") as errors:
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=errors)


def rows(home: AppHome) -> int:
    store = home.views.open(read_only=True)
    try:
        found = store.get("totals", ("eu",))
    except QueryError:
        return 0
    finally:
        store.close()
    return 0 if found is None else int(found["n"])


def test_a_standby_takes_over_when_the_first_process_is_killed(tmp_path: Path) -> None:
    write(tmp_path / "shop.py", SHOP)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "0.json", '{"region": "eu", "amount": 1}\n')
    home = AppHome(tmp_path / ".keyfold" / "shop")
    first = started(tmp_path, "run")
    second = None
    try:
        assert wait_until(lambda: rows(home) == 1, 250, pause=0.2)
        second = started(tmp_path, "run", "--standby")
        log = tmp_path / "standby.log"
        assert wait_until(lambda: b"standing by to take over" in log.read_bytes(), 250)
        assert f"pid {first.pid} runs shop".encode() in log.read_bytes()
        first.kill()
        first.wait()
        write(tmp_path / "data" / "1.json", '{"region": "eu", "amount": 1}\n')
        assert wait_until(lambda: holder(home) == second.pid, 60), "it holds the home"
        assert wait_until(lambda: rows(home) == 2, 250, pause=0.2), "and continues"
        second.send_signal(signal.SIGTERM)
        assert second.wait(120) == 0
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(60)
