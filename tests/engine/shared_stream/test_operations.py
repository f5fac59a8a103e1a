"""A stream with a log while an app runs: idle streams, batches at intervals, a reset with all readers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine import start
from keyfold.engine.handle import Handle
from keyfold.engine.polling import wait_until
from keyfold.engine.sources import idle_watermark
from keyfold.engine.storage.layout import AppHome
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "k string, at timestamp"


def started(app: kf.App, home: Path) -> Handle:
    return start.start(app.spec(), spark=shared_session(), home=home)


def put(inbox: Path, name: str, *times: datetime) -> None:
    inbox.mkdir(exist_ok=True)
    lines = [json.dumps({"k": "a", "at": at.isoformat()}) + "\n" for at in times]
    (inbox / f".{name}").write_text("".join(lines))
    (inbox / f".{name}").rename(inbox / f"{name}.json")


def test_a_table_sees_that_a_recorded_stream_is_idle_and_is_reset_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    past = datetime.now(UTC) - timedelta(hours=3)
    app = kf.App("shop")
    rows = app.stream("rows", kf.files(inbox, format="json"), schema=SCHEMA, time="at", shared=True)
    rows.by("k").table("counts", n="count(*)")
    rows.by("k").tumbling("1 hour").table("closed", n="count(*)", emit="final", idle="1 second")
    put(inbox, "1", past, past)

    def closed() -> list[int]:
        return [row["n"] for row in handle.table("closed").rows()]

    with started(app, home) as handle:
        assert wait_until(closed, 60), "event time advances with the clock"
        assert sum(closed()) == 2
        # It advances because there were no more rows, and not because those of a log were overlooked.
        reports = handle.queries["closed"]._jsq.recentProgress()
        table = handle.home.table("closed")
        seen = [idle_watermark._rows(json.loads(report.json()), table) for report in reports]
        assert sum(found.get("rows", 0) for found in seen) == 2
    asked = ["reset", "shop.rows", "--yes", "--home", str(home)]
    assert main(asked) == 2
    assert "shop.rows is read by closed, counts" in capsys.readouterr().err
    assert main([*asked, "--with-readers", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["streams"], sorted(done["tables"])) == (["rows"], ["closed", "counts"])
    assert AppHome(home / "shop").stream_home("rows").planned_batch() is None
    put(inbox, "2", past)
    with started(app, home) as handle:
        handle.drain()
        assert [row["n"] for row in handle.table("counts").rows()] == [3], "all begins with the first row"


def test_tables_that_read_logs_alone_do_not_wait_for_the_interval(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    app = kf.App("shop", every="1 hour")
    rows = app.stream("rows", kf.files(inbox, format="json"), schema=SCHEMA)
    rows.by("k").table("one", n="count(*)")
    rows.by("k").table("two", n="count(*)")
    put(inbox, "1", datetime.now(UTC))
    with started(app, tmp_path / "home") as handle:
        # The stream's first batch runs at once, its next one in an hour.
        assert wait_until(lambda: all(handle.table(t).rows() for t in ("one", "two")), 60)
        assert handle.hooks["rows"].last == 0
