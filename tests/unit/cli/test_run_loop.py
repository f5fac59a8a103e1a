"""How a run is waited for: how often it is looked at, and how often it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from keyfold.cli import run_loop
from keyfold.cli.signals import Stopping


@dataclass
class Query:
    isActive: bool = True


@dataclass
class Running:
    """An app with one query, for which waiting takes no time: it notes how long it would have taken."""

    queries: dict[str, Query] = field(default_factory=lambda: {"totals": Query()})
    waits: list[float] = field(default_factory=list)

    def wait(self, seconds: float, stopping: object) -> None:
        self.waits.append(seconds)


@pytest.mark.parametrize(("look", "pause"), [({}, 0.5), ({"look": 0.1}, 0.1)])
def test_whether_a_run_is_over_is_asked_as_often_as_wanted(
    look: dict[str, float], pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    monkeypatch.setattr(run_loop.log_lines.Lines, "tell", lambda lines: shown.append(1))
    running, asked = Running(), iter([False] * 4 + [True])
    with Stopping() as stopping:
        ended = run_loop.waited(cast(Any, running), stopping, over=lambda: next(asked), **look)
    assert ended == "over"
    assert running.waits == [pause] * 4
    assert shown == [1], "no more often than twice a second, however often it is looked at"
