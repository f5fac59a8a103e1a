"""What keyfold writes is for its owner alone, also where the process' umask lets everybody read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold.engine.log import retention
from keyfold.engine.log.log_writer import LogWriter
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.session_settings import log_settings
from keyfold.engine.sources import json_rows
from keyfold.engine.storage import layout as homes
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.read import side_outputs
from keyfold.settings import load
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.types.parse import parse

SCHEMA = ViewSchema("t", (Column("k", parse("string")),), (Column("n", parse("long")),))


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(place: Path) -> dict[str, str]:
    """What another user could read below a directory, and the directory itself."""
    found = (place, *place.rglob("*"))
    return {str(path): oct(mode(path)) for path in found if mode(path) & 0o077}


def test_all_that_python_writes_into_a_home_is_private(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    log_settings(load(home=home))
    app_home = homes.local_app_home(home, "shop")
    lease = Lease(app_home).take()
    table = app_home.table("t")
    app_home.write_plan(StoredApp())
    app_home.write_status({"tables": {}})
    log = TableLog(table.log)
    written = '{"parts": [], "counts": {"rejected": 0}, "reasons": []}'
    kernel = SimpleNamespace(logWriter=lambda: None, writeLog=lambda *_: written)
    skipped = [{"reason": "the file is missing", "raw": "/a.json", "stream": "rows"}]
    writer = LogWriter(kernel, log, "shop.t", lease)
    frame: Any = SimpleNamespace(_jdf=None)
    writer.publish(frame, 0, changes=True, watermark=None, offsets=[], skipped=skipped)
    assert [row.raw for row in side_outputs.read_rejected(log)] == ["/a.json"]
    retention.prune(log, 0)
    json_rows.put(app_home.path / "streams" / "rows", "one", "{}\n")
    store = app_home.views.open(read_only=False)
    store.create(SCHEMA)
    with store.batch("t", 0, datetime.now(UTC)):
        assert {path.name for path in app_home.path.glob("views.db*")} >= {"views.db", "views.db-wal"}
        assert open_to_others(tmp_path / "deep") == {}
    store.close()
    lease.release()


def test_an_app_that_others_could_read_is_made_private_when_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "home" / "shop" / "tables").mkdir(parents=True)
    homes.local_app_home(tmp_path / "home", "shop")
    assert mode(tmp_path / "home" / "shop") == 0o700
    assert mode(tmp_path / "home") == 0o777, "the home may hold other things than keyfold's"


def test_logs_that_others_could_read_are_made_private(tmp_path: Path) -> None:
    for name in ("spark.log", "spark.log.1", "java.log"):
        (tmp_path / name).write_text("old")
    log_settings(load(home=tmp_path))
    assert open_to_others(tmp_path).keys() <= {str(tmp_path)}, "the home itself may hold other things"
