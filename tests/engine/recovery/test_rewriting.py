"""A state that is written anew through a transform, and what a kill in the middle leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyfold.engine.savepoint import rewriting, unfinished
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import drive, shared_session
from tests.engine.recovery.test_rescale import app, fill

pytestmark = pytest.mark.jvm
TABLES = ("sums", "windows", "top", "once")


class Killed(BaseException):
    pass


def without_a(operator: int, rows: DataFrame) -> DataFrame:
    if operator != 0:
        return rows
    return rows.where(F.col("partition_key.k") != "a")


def rewrite(place: AppHome, *tables: str) -> dict[str, Any]:
    entry = audit.entry("rewrite", "a test", tables=list(tables))
    with unfinished.held(place):
        for table in tables:
            made = rewriting.rewritten(shared_session(), place, table, without_a)
            assert made.batch == made.before + 1
        rewriting.switch(place, entry, tables)
    return entry


def test_a_rewritten_state_takes_the_place_of_the_old_one_and_goes_on(tmp_path: Path) -> None:
    with drive(app()) as clean:
        with drive(app(), home=tmp_path) as d:
            for each in (clean, d):
                fill(each, 1)
        place = AppHome(tmp_path / "kinds")

        def killed_at(wanted: FaultPoint) -> None:
            def handle(point: FaultPoint, facts: dict[str, Any]) -> None:
                if point == wanted:
                    raise Killed

            with handled_by(handle), pytest.raises(Killed):
                rewrite(place, *TABLES)

        killed_at(FaultPoint.REWRITE_READY)
        before = {table: place.table(table).committed() for table in TABLES}
        unfinished.finish(place)
        assert not any((place.table(table).path / "rewriting").exists() for table in TABLES)
        assert {table: place.table(table).committed() for table in TABLES} == before
        killed_at(FaultPoint.REWRITE_TABLE_DONE)
        with drive(app(), home=tmp_path) as d:
            assert {t: place.table(t).committed() for t in TABLES} == {
                t: n + 1 for t, n in before.items() if n
            }
            for each in (clean, d):
                fill(each, 7200)
            new, old = ({t: each.rows(t) for t in TABLES} for each in (d, clean))
        entries = [one["what"] for one in audit.entries(place.storage)]
        assert entries == ["rewrite"]
    for table in ("sums", "once"):
        counts, whole = ({row["k"]: row["n"] for row in rows[table]} for rows in (new, old))
        # What `a` had before is gone; the others go on.
        assert counts == {**whole, "a": whole["a"] // 2}
    for table in ("windows", "top"):
        others = [[row for row in rows[table] if row["k"] != "a"] for rows in (new, old)]
        assert others[0] == others[1]
