"""How a run is waited for: how often it is looked at, and how often it is shown."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from keyfold.cli.running import run_loop
from keyfold.cli.running.signals import Stopping


@dataclass
class Query:
    isActive: bool = True


@dataclass
class Running:
    """An app with one query. Waiting for it takes no time, but moves the clock."""

    queries: dict[str, Query] = field(default_factory=lambda: {"totals": Query()})
    waits: list[float] = field(default_factory=list)
    now: float = 100.0

    def wait(self, seconds: float, stopping: object) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(("look", "pause", "shows"), [({}, 0.5, 4), ({"look": 0.125}, 0.125, 1)])
def test_a_run_is_shown_twice_a_second_however_often_it_is_asked_whether_it_is_over(
    look: dict[str, float], pause: float, shows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    running, asked = Running(), iter([False] * 4 + [True])
    monkeypatch.setattr(run_loop.log_lines.Lines, "tell", lambda lines: shown.append(1))
    monkeypatch.setattr(run_loop.time, "monotonic", lambda: running.now)
    with Stopping() as stopping:
        ended = run_loop.wait_until_end(cast(Any, running), stopping, over=lambda: next(asked), **look)
    assert ended == "over"
    assert running.waits == [pause] * 4
    assert len(shown) == shows


def test_a_signal_whose_exception_python_dropped_interrupts_the_next_step_of_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Signalling:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: dropped.append(found.exc_type))
    with Stopping() as stopping:
        stopping.check()
        Signalling()
        assert dropped == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt):
            stopping.check()
        stopping.up()
        stopping.check()
