"""plan --shadow: recorded batches under changed code beside the app, compared with a recount of the input."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.reports import shadow_report
from keyfold.engine.log.compaction import Compaction
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.shadow.run import Shadow
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import BadOption, QueryFailed
from keyfold.testing import drive
from tests.engine.recovery.test_migrate import planned, rows
from tests.process.test_process import Total

pytestmark = pytest.mark.jvm

BATCHES = [rows(first, 4) for first in range(0, 32, 4)]
# Late for the windows that have closed by then.
BATCHES[5] = [*BATCHES[5], {"customer": "a", "region": "x", "amount": 100, "t": "2026-01-01 00:00:01"}]
SCHEMA = "customer string, region string, amount int, t timestamp"


def app(where: str = "amount >= 0", size: str = "5 seconds", on_error: Any = "reject", **more: str) -> kf.App:
    made = kf.App("shop")
    orders = made.stream("orders", kf.rows([]), SCHEMA, time="t", history="7 days")
    keyed = orders.where(where).by("customer")
    keyed.table("totals", n="count(*)", total="sum(amount)", on_error=on_error, **more)
    orders.by("region").tumbling(size).table("windows", n="count(*)", emit="final")
    orders.by("customer").session("9 seconds").table("sessions", n="count(*)")
    dip = kf.step("a", "amount = 6") >> kf.step("b", "amount < 3")
    orders.by("region").pattern("dips", dip, within="20 seconds", returns={"low": "b[0].amount"})
    unrecorded = made.stream("plain", kf.rows([]), SCHEMA)
    unrecorded.by("customer").table("others", n="count(*)")
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an app that has run eight batches."""
    found = tmp_path_factory.mktemp("shadow")
    with drive(app(), home=found) as d:
        for batch in BATCHES:
            d.push("orders", batch)
        d.push("plain", BATCHES[0])
    return found


def shadowed(new: kf.App, home: Path, work: Path, number: int, *tables: str, limit: int = 50) -> list[Shadow]:
    """The shadow runs of tables; nothing in the home may change."""
    before = files(home)
    try:
        return shadow_report.run(planned(new, home, work / "feeds", *tables), number, tables, limit).done
    finally:
        after = files(home)
        assert {name: after.get(name) for name in before} == before
        # The session of the tests, in which the app ran, may upload a snapshot of its state later.
        assert [name for name in after if name not in before and "/state/" not in name] == []


def files(home: Path) -> dict[str, str]:
    """All files with their content; what SQLite keeps beside a database that is read goes by itself."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and not path.name.startswith("views.db-")
    }


def totals(batches: list[list[dict[str, Any]]], least: int) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in (row for batch in batches for row in batch if row["amount"] >= least):
        n, total = found.get(row["customer"], (0, 0))
        found[row["customer"]] = (n + 1, total + row["amount"])
    return found


@pytest.mark.parametrize("number", [1, 3, 8])
def test_code_that_has_not_changed_makes_no_difference(home: Path, tmp_path: Path, number: int) -> None:
    names = ("totals", "windows", "sessions", "dips")
    found = shadowed(app(), home, tmp_path, number, *names)
    assert [one.table for one in found] == list(names)
    for one in found:
        assert one.rows.rows == []
        assert one.begin.batches >= number
        assert one.side_outputs.before == one.side_outputs.after
    assert found[0].rows.compared == 4


@pytest.mark.parametrize("number", [2, 8])
def test_another_condition_differs_by_what_it_did_to_these_batches(
    home: Path, tmp_path: Path, number: int
) -> None:
    (found,) = shadowed(app("amount >= 4"), home, tmp_path, number, "totals")
    old, kept = totals(BATCHES, 0), totals(BATCHES[:-number], 0)
    for name, (n, total) in totals(BATCHES[-number:], 4).items():
        before = kept.get(name, (0, 0))
        kept[name] = (before[0] + n, before[1] + total)
    wanted = {k: (old[k], kept.get(k)) for k in old if old[k] != kept.get(k)}
    assert found.begin.state is not None or number == 8
    assert {row.key["customer"]: row.change for row in found.rows.rows} == dict.fromkeys(wanted, "changed")
    for row in found.rows.rows:
        (n, total), after = wanted[row.key["customer"]]
        assert row.before == {"n": n, "total": total}
        assert after is not None
        assert row.after == {"n": after[0], "total": after[1]}


def test_an_added_aggregate_begins_with_these_batches(home: Path, tmp_path: Path) -> None:
    (found,) = shadowed(app(most="max(amount)"), home, tmp_path, 2, "totals")
    most: dict[str, int] = {}
    for row in (row for batch in BATCHES[-2:] for row in batch):
        most[row["customer"]] = max(most.get(row["customer"], 0), row["amount"])
    assert {row.key["customer"]: (row.before, row.after) for row in found.rows.rows} == {
        name: ({}, {"most": value}) for name, value in most.items()
    }


def test_another_window_begins_with_nothing(home: Path, tmp_path: Path) -> None:
    (found,) = shadowed(app(size="3 seconds"), home, tmp_path, 8, "windows")
    assert found.begin.state is None
    assert found.begin.whole
    assert found.rows.counts["added"] > 0
    assert found.rows.counts["removed"] > 0
    (some,) = shadowed(app(size="3 seconds"), home, tmp_path / "some", 2, "windows")
    assert some.begin.state is None
    assert not some.begin.whole


def test_rows_that_the_new_code_rejects_are_counted_with_a_reason(home: Path, tmp_path: Path) -> None:
    (found,) = shadowed(app("1 / (amount - 3) is not null"), home, tmp_path, 8, "totals")
    wanted = sum(row["amount"] == 3 for batch in BATCHES for row in batch)
    assert wanted
    assert found.side_outputs.after["rejected"] == wanted
    assert found.side_outputs.before["rejected"] == 0
    assert "DIVIDE_BY_ZERO" in found.side_outputs.reasons[0].example


def test_code_that_fails_on_a_row_is_reported_as_a_run_would(home: Path, tmp_path: Path) -> None:
    failing = app("1 / (amount - 3) is not null", on_error="fail")
    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        shadowed(failing, home, tmp_path, 8, "totals")


def test_more_batches_than_are_recorded_are_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption) as error:
        shadowed(app(), home, tmp_path, 99, "totals")
    assert "--shadow 8" in str(error.value)


def test_a_table_without_recorded_rows_says_what_to_declare(home: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no table of shop can be run") as error:
        shadowed(app(), home, tmp_path, 1, "others")
    assert "stream plain records no rows: declare it with history=" in str(error.value)


def test_an_app_that_has_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="has not run in this home"):
        shadowed(app(), tmp_path, tmp_path / "work", 1, "totals")


def test_a_table_that_is_new_has_only_added_rows(home: Path, tmp_path: Path) -> None:
    made = kf.App("shop")
    orders = made.stream("orders", kf.rows([]), SCHEMA, time="t", history="7 days")
    orders.by("region").table("regions", n="count(*)")
    (found,) = shadowed(made, home, tmp_path, 8, "regions")
    counts = {"x": 0, "y": 0}
    for row in (row for batch in BATCHES for row in batch):
        counts[row["region"]] += 1
    assert {row.key["region"]: row.after["n"] for row in found.rows.rows} == counts
    assert found.rows.counts == {"added": 2, "removed": 0, "changed": 0}
    document = shadow_report.as_json(_shadows(found))
    assert json.loads(json.dumps(document, default=str))[0]["begins_with_state_of"] is None


def _shadows(*found: Shadow) -> shadow_report.Shadows:
    made = shadow_report.Shadows()
    made.done += found
    return made


def test_merged_batches_and_processors_run_again_too(tmp_path: Path) -> None:
    made = kf.App("shop")
    plain = made.stream("plain", kf.rows([]), "k string, n bigint", history="7 days")
    plain.by("k").table("sums", n="sum(n)")
    plain.by("k").process("totals", Total, output="k string, total bigint, _op string")
    with drive(made, home=tmp_path / "home") as d:
        for number in range(15):
            d.push("plain", [{"k": "abc"[number % 3], "n": number}])
    home = AppHome(tmp_path / "home" / "shop")
    lease = Lease(home).take()
    assert list(Compaction(TableLog(home.stream_home("plain").log_files), lease).run())
    lease.release()
    # Spark removes older states than the last ten at some time; before those only the first row will do.
    for batch in range(4):
        home.table("sums").spark.commit_file(batch).delete()
    with pytest.raises(BadOption) as error:
        shadowed(made, tmp_path / "home", tmp_path / "14", 14, "sums")
    assert "--shadow 10, or fewer; or all of them, --shadow 15" in str(error.value)
    for number in (15, 2):
        found = shadowed(made, tmp_path / "home", tmp_path / str(number), number, "sums", "totals")
        assert [one.rows.rows for one in found] == [[], []]
        assert [one.rows.compared for one in found] == [min(number, 3)] * 2
