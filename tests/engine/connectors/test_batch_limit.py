"""How much of a stream of files one batch reads, if the stream does not say it itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def test_a_first_batch_reads_no_more_than_the_settings_allow(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    for number in range(5):
        (inbox / f"{number}.json").write_text('{"k": 1}\n')
        os.utime(inbox / f"{number}.json", (1_000_000 + number, 1_000_000 + number))
    app = kf.App("shop")
    app.stream("bounded", kf.files(inbox), schema="k int").by("k").table("a", n="count(*)")
    own = kf.files(inbox, maxFilesPerTrigger=4)
    app.stream("told", own, schema="k int").by("k").table("b", n="count(*)")
    with app.start(spark=shared_session(), home=tmp_path / "home", batch_files=2, batch_bytes="1g") as handle:
        handle.drain()
        status = handle.status()
        assert status["batch_limits"] == {"bounded": {"files": 2, "bytes": 1 << 30}, "told": {"files": 4}}
        assert {name: table["batch"] for name, table in status["tables"].items()} == {"a": 2, "b": 1}
        assert [row["n"] for table in "ab" for row in handle.table(table).rows()] == [5, 5]
