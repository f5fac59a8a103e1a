"""Rows of a key are taken out of a log, also of merged batches; all others stay where they are."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.log.compaction import Compaction
from keyfold.engine.log.key_text import is_value
from keyfold.engine.log.log_erasure import LogErasure
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import local_app_home
from keyfold.engine.storage.lease import Lease
from keyfold.read.history import history, since
from tests.unit.engine.test_compaction import filled


def rows(log: TableLog, kind: Any) -> list[tuple[int, Any]]:
    return [
        (manifest.batch, row["k"] if kind == "change" else row["raw"])
        for manifest in log.after(-1)
        for found in log.rows(manifest, kind)
        for row in found.to_pylist()
    ]


@pytest.mark.parametrize("merged", [False, True])
def test_no_row_of_the_key_is_left_and_the_others_are_as_they_were(tmp_path: Path, merged: bool) -> None:
    home = local_app_home(tmp_path, "shop")
    files = home.table("t").log_files
    filled(TableLog(files), 40)
    if merged:
        lease = Lease(home).take()
        assert list(Compaction(TableLog(files), lease).run())
        lease.release()
    log = TableLog(files)
    before = {kind: rows(log, kind) for kind in ("change", "late", "rejected")}
    assert since(log).whole
    known = [change.batch for change in history(log, ["k1"])]
    assert known == [batch for batch, key in before["change"] if key == "k1"]
    run = LogErasure(log, {"k": "k1"}, {"k": "2-1"}, files.put)
    run.run()
    assert run.erased == {"change": len(known), "rejected": 1}
    assert run.by_word == 1
    after = TableLog(files)
    assert rows(after, "change") == [one for one in before["change"] if one[1] != "k1"]
    assert rows(after, "rejected") == [one for one in before["rejected"] if one[1] != "2-1"]
    assert rows(after, "late") == before["late"]
    for manifest in after.after(-1):
        assert manifest.has_its_changes
        for part in manifest.parts:
            after.verify(part)
    again = LogErasure(after, {"k": "k1"}, {"k": "2-1"}, files.put)
    again.run()
    assert (again.files, again.erased) == (0, {})


@pytest.mark.parametrize("merged", [False, True])
def test_changes_of_some_batches_stay_and_are_told(tmp_path: Path, merged: bool) -> None:
    place = local_app_home(tmp_path, "shop")
    files = place.table("t").log_files
    filled(TableLog(files), 40)
    if merged:
        lease = Lease(place).take()
        assert list(Compaction(TableLog(files), lease).run())
        lease.release()
    log = TableLog(files)
    before = rows(log, "change")
    mine = [batch for batch, key in before if key == "k1"]
    # In the middle of what is merged.
    unread = range(mine[1], mine[3])
    run = LogErasure(log, {"k": "k1"}, {"k": "2-1"}, files.put, stays=unread)
    run.run()
    stays = {batch for batch in mine if batch in unread}
    assert len(stays) == 2
    assert (run.left, run.erased["change"]) == (stays, len(mine) - 2)
    after = TableLog(files)
    assert rows(after, "change") == [one for one in before if one[1] != "k1" or one[0] in unread]
    for manifest in after.after(-1):
        for part in manifest.parts:
            after.verify(part)


def test_a_value_of_a_key_is_compared_as_text_of_its_type() -> None:
    assert is_value(7, "7")
    assert is_value(True, "true")
    assert not is_value(None, "None")
    assert is_value(Decimal("7.50"), "7.5")
    assert is_value(7.0, "7")
    assert not is_value("7.0", "7"), "text is compared as it is"
    assert not is_value(7, "seven")
