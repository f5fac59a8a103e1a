"""Fault points: each is reached by the product, and a handler is in place only for a while."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from keyfold.fault_points import FaultPoint, handled_by, reached

SOURCE = Path(__file__).resolve().parents[2] / "src" / "keyfold"


def test_every_fault_point_is_reached_somewhere() -> None:
    files = (file for file in SOURCE.rglob("*.py") if file.name != "fault_points.py")
    named = {name for file in files for name in re.findall(r"FaultPoint\.(\w+)", file.read_text("utf-8"))}
    assert set(FaultPoint.__members__) - named == set()


def test_a_handler_gets_the_point_and_its_facts_until_its_end() -> None:
    seen: list[tuple[FaultPoint, dict[str, Any]]] = []
    with handled_by(lambda point, facts: seen.append((point, facts))):
        reached(FaultPoint.BATCH_BEGUN, table="totals", batch=3)
    reached(FaultPoint.BATCH_DONE, table="totals", batch=3)
    assert seen == [(FaultPoint.BATCH_BEGUN, {"table": "totals", "batch": 3})]


def test_a_handler_that_raises_is_removed_too() -> None:
    def fail(point: FaultPoint, facts: dict[str, Any]) -> None:
        raise OSError(point)

    with pytest.raises(OSError, match="batch begun"), handled_by(fail):
        reached(FaultPoint.BATCH_BEGUN)
    reached(FaultPoint.BATCH_BEGUN)
