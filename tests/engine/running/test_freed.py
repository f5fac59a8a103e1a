"""What a stopped app leaves in memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import drive

pytestmark = pytest.mark.jvm


def test_a_stopped_app_is_freed_without_waiting_for_pythons_collector(tmp_path: Path) -> None:
    app = kf.App("shop")
    rows = app.stream("rows", kf.files(tmp_path), schema="k string, x int", shared=True)
    sums = rows.by("k").table("sums", n="count(*)")
    sums.changes().by("n").table("sizes", keys="count(*)")

    def stopped() -> weakref.ref[Any]:
        with drive(app) as d:
            d.push("rows", [{"k": "a", "x": 1}])
            return weakref.ref(d.handle)

    gc.disable()
    try:
        assert stopped()() is None, "Java keeps its queries as long as Python keeps the handle"
    finally:
        gc.enable()
