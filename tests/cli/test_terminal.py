"""The command line in a real terminal, as a newcomer sees it: the demo live, Ctrl-C, an app from `init`."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyte
import pytest

from keyfold.engine.polling import wait_until
from tests.cli.test_run import ENVIRONMENT, KEYFOLD, keyfold

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]


class Terminal:
    """A command in a terminal of so many columns, with what its screen shows now."""

    def __init__(self, columns: int, lines: int, *command: str, cwd: Path, **environment: str) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.seen = b""
        parent, child = pty.openpty()
        pty_size(child, columns, lines)
        env = {**ENVIRONMENT, "TERM": "xterm-256color", **environment}
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, cwd=cwd, env=env, start_new_session=True
        )
        os.close(child)
        self._parent = parent
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._parent, 4096)
            except OSError:
                return
            if not piece:
                return
            self.seen += piece
            self._stream.feed(piece)

    @property
    def shown(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def until(self, condition: Callable[[str], bool], seconds: float = 120) -> str:
        wait_until(lambda: condition(self.shown) or self.process.poll() is not None, seconds, 0.1)
        shown = self.shown
        assert condition(shown), f"ended, or not seen in time:\n{shown}"
        return shown

    def ended(self, seconds: float = 90) -> int:
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._parent)


def pty_size(descriptor: int, columns: int, lines: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_the_demo_is_live_until_ctrl_c_and_then_recounts(tmp_path: Path, terminals: list[Terminal]) -> None:
    demo = Terminal(130, 60, *KEYFOLD, "demo", cwd=tmp_path)
    terminals.append(demo)
    demo.until(lambda shown: "starting Spark" in shown or "rows/s" in shown)
    words = ("rows/s", "watermark", "africa", "c20")
    live = demo.until(lambda s: all(word in s for word in words) and any(bar in s for bar in "▂▃▄▅▆▇█"))
    for word in ("regions", "customers", "products", "visits", "keys", "state", "behind", "late", "rejected"):
        assert word in live
    os.killpg(demo.process.pid, signal.SIGINT)
    assert demo.ended() == 0, demo.shown
    last = demo.shown
    assert "a recount of the generated files gives the same totals for every key" in last
    assert "does not parse" in last
    assert "key region is null" in last
    assert "Traceback" not in demo.seen.decode("utf-8", "replace")


def test_a_narrow_terminal_without_colours_shows_the_same(tmp_path: Path, terminals: list[Terminal]) -> None:
    assert keyfold(tmp_path, "init", "shop").code == 0
    run = Terminal(40, 40, *KEYFOLD, "run", "app.py", cwd=tmp_path / "shop", NO_COLOR="1", LANG="C.UTF-8")
    terminals.append(run)
    live = run.until(lambda shown: "keys 3" in shown and "keys 23" in shown)
    assert "region_totals" in live
    assert "rejected 2" in live
    os.killpg(run.process.pid, signal.SIGTERM)
    assert run.ended() == 0
    assert b"\x1b[3" not in run.seen, "a colour in spite of NO_COLOR"
    rows = keyfold(tmp_path / "shop", "rows", "region_totals", "--json").json
    assert {row["region"]: row["orders"] for row in rows} == {"asia": 66, "eu": 67, "us": 67}


def test_the_test_that_init_writes_passes(tmp_path: Path) -> None:
    assert keyfold(tmp_path, "init", ".").code == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_ctrl_c_while_java_starts_leaves_no_java_behind(tmp_path: Path, terminals: list[Terminal]) -> None:
    assert keyfold(tmp_path, "init", ".").code == 0
    run = Terminal(100, 30, *KEYFOLD, "run", "app.py", cwd=tmp_path)
    terminals.append(run)

    def javas() -> list[psutil.Process]:
        found = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]
        return [p for p in found if "java" in str(p.info["cmdline"])]

    assert wait_until(lambda: bool(javas()), 60)
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.ended() == 130, run.shown
    assert "stopped during the start; no row was processed" in run.shown
    assert wait_until(lambda: not javas(), 30), "a JVM was left behind"
