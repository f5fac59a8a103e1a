"""status, doctor, init, the formats of rows, completion: on a home as a run leaves it, without a JVM."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from keyfold.cli import options
from keyfold.cli.commands.run import doctor
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease, current
from keyfold.engine.storage.lease_files import LeaseFiles
from keyfold.engine.storage.processes import this_host
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from tests.cli.conftest import AT, Cli, write
from tests.cli.test_formatting import TABLE
from tests.leases import holder
from tests.storage.lease_contract import record


def test_rows_as_csv_have_every_row_and_values_as_in_json(home: Path, cli: Cli) -> None:
    out = cli("rows", "kinds", "--home", home, "--format", "csv").out
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["at"] == "2026-01-01T12:00:00Z"
    assert row["price"] == "1234.00"
    assert json.loads(row["tags"]) == [1.0, "NaN", None]
    assert (
        cli("rows", "totals", "--home", home, "--format", "csv").out.splitlines()[-1].startswith("ä[b],1,,")
    )


def test_rows_as_parquet_keep_their_types(home: Path, cli: Cli, tmp_path: Path) -> None:
    said = cli("rows", "kinds", "--home", home, "--format", "parquet", "--out", tmp_path / "kinds.parquet")
    assert (said.code, said.out) == (0, "")
    assert "1 row in" in said.err
    table = pq.read_table(tmp_path / "kinds.parquet")
    (row,) = table.to_pylist()
    assert row["at"] == AT
    assert row["counts"] == [(1, 2), (3, None)]
    assert str(table.schema.field("price").type) == "decimal128(20, 2)"
    assert [p.name for p in tmp_path.iterdir()] == ["kinds.parquet"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "cvs"], "did you mean 'csv'?"),
        (["--out", "x.csv"], "--format csv --out x.csv"),
        (["--format", "csv", "--out", "/nowhere/x.csv"], "cannot write /nowhere/x.csv"),
    ],
)
def test_a_format_that_is_not_there_is_refused(home: Path, cli: Cli, words: list[str], said: str) -> None:
    result = cli("rows", "totals", "--home", home, *words)
    assert result.code == 2
    assert said in result.err


def test_status_tells_a_stopped_app_from_a_running_one(tmp_path: Path, cli: Cli) -> None:
    home = AppHome(tmp_path / "shop")
    home.path.mkdir()
    home.write_plan(StoredApp({"totals": StoredTable(), "unstarted": StoredTable()}))
    assert "shop has not run yet; " in cli("status", "--home", tmp_path).out  # as after a clone
    home.write_status({"app": "shop", "started": AT, "at": AT, "tables": {"totals": TABLE}})
    killed = cli("status", "--home", tmp_path)
    assert "shop is not running: it was killed, last seen at 2026-01-01T12:00:00Z" in killed.out
    assert "1.23M" in killed.out
    ended = {**TABLE, "running": False}
    home.write_status({"app": "shop", "started": AT, "at": AT, "tables": {"totals": ended}})
    assert "shop is not running: stopped at 2026-01-01T12:00:00Z" in cli("status", "--home", tmp_path).out
    home.write_status({"app": "shop", "started": AT, "at": AT, "tables": {"totals": TABLE}})

    lease = Lease(home).take()
    try:
        assert holder(home) == os.getpid()
        (status,) = cli("status", "shop", "--home", tmp_path, "--json").json
        assert (status["running"], status["pid"], status["ended"]) == (True, os.getpid(), None)
        assert status["tables"]["totals"]["rows"] == 1_234_567
        assert status["tables"]["unstarted"] == {"running": False}
    finally:
        lease.release()
    assert holder(home) is None

    # A column that a migration added does not know of all rows.
    # Migrations once recorded the time alone.
    since = {"mean": AT.isoformat(), "top": {"at": AT.isoformat(), "batch": 1234}}
    home.write_plan(StoredApp({"totals": StoredTable.from_json({"since": since})}))
    said = cli("status", "--home", tmp_path).out
    assert "totals.mean covers rows since 2026-01-01T12:00:00Z\n" in said
    assert "totals.top covers rows since 2026-01-01T12:00:00Z, after batch 1,234\n" in said
    (status,) = cli("status", "--home", tmp_path, "--json").json
    assert status["tables"]["totals"]["since"] == {
        "mean": {"at": AT.isoformat(), "batch": None},
        "top": {"at": AT.isoformat(), "batch": 1234},
    }


def test_a_lease_that_a_killed_process_left_means_nothing(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    left = record(1, os.getpid(), host=this_host(), python={"pid": os.getpid(), "started": 1.0})
    assert LeaseFiles(home.storage).create(left)
    assert holder(home) is None


def test_status_of_an_unknown_app_suggests_a_known_one(home: Path, cli: Cli) -> None:
    said = cli("status", "shp", "--home", home)
    assert said.code == 2
    assert "did you mean 'shop'?" in said.err
    assert "no app has run" in cli("status", "--home", home / "empty").err


def java(place: Path, version: str) -> Path:
    """A `java` that says it is of a version."""
    home = place / f"java-{version}"
    (home / "bin").mkdir(parents=True)
    script = write(home / "bin" / "java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292"])
def test_doctor_refuses_an_old_java(
    version: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version)))
    found = cli("doctor", "--home", tmp_path / "home", "--json")
    assert (found.code, found.json["ok"]) == (1, False)
    assert [f["found"] for f in found.json["findings"] if f["ok"] is False] == [
        f"this Java is too old for Spark 4: {tmp_path}/java-{version}/bin/java: {version}"
    ]
    assert "openjdk-17" in cli("doctor", "--home", tmp_path / "home").out


def test_doctor_says_what_to_do_without_java_or_a_home(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = cli("doctor", "--home", "/proc/nowhere")
    assert said.code == 1
    assert "no Java found" in said.out
    assert "another directory: --home DIR" in said.out


def test_doctor_takes_little_disk_for_a_problem_where_no_start_would_get_by_with_it(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(doctor, "_NEEDED_DISK", 2 * free)
    found = cli("doctor", "--home", tmp_path, "--json")
    disk = next(f for f in found.json["findings"] if f["what"] == "disk")
    assert (found.code, found.json["ok"], disk["ok"]) == (1, False, False)
    assert "free some" in disk["do"]
    said = cli("doctor", "--home", tmp_path)
    assert "all checks passed" not in said.out
    assert any(line.split()[:2] == ["MISSING", "disk"] for line in said.out.splitlines())
    monkeypatch.setattr(doctor, "_NEEDED_DISK", 0)
    monkeypatch.setattr(doctor, "_LITTLE_DISK", 2 * free)
    found = cli("doctor", "--home", tmp_path, "--json")
    disk = next(f for f in found.json["findings"] if f["what"] == "disk")
    assert (disk["ok"], "free some" in disk["do"]) == (None, True)


def test_init_overwrites_nothing(tmp_path: Path, cli: Cli) -> None:
    assert cli("init", tmp_path / "new").code == 0
    before = {p: p.read_bytes() for p in (tmp_path / "new").rglob("*") if p.is_file()}
    again = cli("init", tmp_path / "new")
    assert again.code == 2
    assert "app.py already exists" in again.err
    assert {p: p.read_bytes() for p in before} == before
    assert "cannot write /proc/nowhere" in cli("init", "/proc/nowhere").err


def test_what_init_writes_is_an_app_that_explains_itself(tmp_path: Path, cli: Cli) -> None:
    cli("init", tmp_path)
    said = cli("describe", tmp_path / "app.py").out
    assert "region_totals" in said
    assert "customers" in said


def test_the_shell_completes_apps_and_tables(two_apps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFOLD_HOME", str(two_apps))
    assert options.complete_app("s") == ["shop"]
    assert sorted(options.complete_table("")) == ["bank.totals", "shop.totals"]
    monkeypatch.setenv("KEYFOLD_HOME", str(two_apps / "nowhere"))
    assert options.complete_table("") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "driver_memory"], "--set takes NAME=VALUE"),
        (["--set", "drivr_memory=2g"], "did you mean 'driver_memory'?"),
        (["--set", "driver_memory=lots"], "must be a number and a unit"),
        (["--every", "soon"], "--every"),
        (["--for", "0s"], "--for"),
        (["--dran"], "--drain"),
    ],
)
def test_a_wrong_flag_of_run_is_refused_before_anything_starts(
    shop: Path, tmp_path: Path, cli: Cli, words: list[str], said: str
) -> None:
    result = cli("run", shop, "--home", tmp_path / "home", *words)
    assert result.code == 2
    assert said in result.err
    assert not (tmp_path / "home").exists()


def test_a_wrong_command_suggests_a_right_one(cli: Cli) -> None:
    said = cli("statsu")
    assert said.code == 2
    assert "status" in said.err


def test_a_table_too_wide_for_the_terminal_is_shown_line_by_line(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = cli("rows", "totals", "--home", home).out.splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert "region   eu" in [line.rstrip() for line in lines]
    assert "_at      2026-01-01T12:00:01Z" in [line.rstrip() for line in lines]


def test_status_tells_what_a_table_without_a_run_left_in_its_view(home: Path, cli: Cli) -> None:
    (status,) = cli("status", "--home", home, "--json").json
    assert (status["tables"]["totals"]["batch"], status["tables"]["totals"]["keys"]) == (1, 3)


@pytest.mark.parametrize("words", [["status"], ["rows", "t"], ["check", "shop.py"], ["demo", "--for", "1s"]])
def test_a_home_that_is_a_file_is_told_so(
    words: list[str], shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.parent)
    said = cli(*words, "--home", shop)
    assert said.code == 1
    assert "is not a directory" in said.err or "the home can't be written: Not a directory" in said.err
    assert "--home DIR" in said.err


def app_with(home: Path, tables: dict[str, object], **more: object) -> AppHome:
    """An app that has left its status in a home."""
    app_home = AppHome(home / "shop")
    app_home.path.mkdir(exist_ok=True)
    app_home.write_plan(StoredApp({name: StoredTable() for name in tables}))
    app_home.write_status({"app": "shop", "started": AT, "at": AT, "tables": tables, **more})
    return app_home


def test_status_says_that_an_app_failed_when_where_and_why(tmp_path: Path, cli: Cli) -> None:
    text = "the query of table totals stopped: no space\n  where: shop.totals, batch 3\n  try: free some"
    failure = {"at": AT, "table": "totals", "batch": 3, "kind": "QueryFailed", "text": text}
    app_with(tmp_path, {"totals": {**TABLE, "running": False}}, failures=[failure])
    said = cli("status", "--home", tmp_path).out
    assert "shop is not running: it failed at 2026-01-01T12:00:00Z" in said
    assert f"shop.totals failed at 2026-01-01T12:00:00Z: {text}" in said
    (found,) = cli("status", "--home", tmp_path, "--json").json
    assert (found["state"], found["ended"]) == ("failed", "failed")
    assert found["failures"] == [{**failure, "at": AT.isoformat()}]


def test_status_tells_how_old_the_figures_are_and_who_no_longer_writes_them(tmp_path: Path, cli: Cli) -> None:
    counted = {**TABLE, "keys_at": datetime.now(UTC) - timedelta(minutes=5)}
    home = app_with(tmp_path, {"totals": counted}, at=datetime.now(UTC) - timedelta(seconds=3))
    words = "import sys; from pathlib import Path; from keyfold.engine.storage import layout, lease\n"
    # With a lease time in which no heartbeat comes during the test.
    taking = "lease.Lease(layout.AppHome(Path(sys.argv[1])), seconds=3600).take()"
    code = f"{words}\n{taking}; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(home.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert "shop is starting, pid" in cli("status", "--home", tmp_path).out
            taken = current(home)
            assert taken is not None
            LeaseFiles(home.storage).write(replace(taken, since=AT.isoformat()))
            said = cli("status", "--home", tmp_path).out
            assert re.search(
                r"shop is running, pid \d+, since 2026-01-01T12:00:00Z; status written \d\.\d s ago", said
            )
            assert "keys were counted earlier: totals 5 min ago" in said

            app_with(tmp_path, {"totals": TABLE}, at=datetime.now(UTC) - timedelta(seconds=45))
            assert (
                f"shop is not responding, pid {process.pid}, since " in cli("status", "--home", tmp_path).out
            )
            (found,) = cli("status", "--home", tmp_path, "--json").json
            assert (found["state"], found["running"]) == ("not responding", True)
            assert 45 <= found["age_seconds"] < 60

            process.send_signal(signal.SIGSTOP)
            assert wait_until(
                lambda: cli("status", "--home", tmp_path, "--json").json[0]["state"] == "suspended", 10
            )
            assert f"kill -CONT {process.pid}" in cli("status", "--home", tmp_path).out
        finally:
            process.kill()


def test_status_warns_of_partial_matches_that_a_limit_dropped(tmp_path: Path, cli: Cli) -> None:
    app_with(tmp_path, {"pairs": {**TABLE, "dropped_partials": 900}, "totals": TABLE})
    shown = cli("status", "--home", tmp_path).out
    header, *rows = shown.splitlines()[1:4]
    end = header.index("dropped_partials") + len("dropped_partials")
    assert [row[:end].split()[-1] for row in rows] == ["900", "0"]
    assert shown.count("WARNING") == 1
    assert "pairs has dropped 900 partial matches beyond limit=, so matches may be missing" in shown


@pytest.mark.parametrize("width", [80, 120, 200])
def test_status_of_many_tables_is_a_line_for_each(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    names = [f"a_table_of_mine_{number}" for number in range(9)]
    app_with(tmp_path, {**dict.fromkeys(names, TABLE), names[0]: {**TABLE, "duplicates": 12}})
    monkeypatch.setenv("COLUMNS", str(width))
    _, *lines = cli("status", "--home", tmp_path).out.splitlines()
    assert len(lines) == 10
    assert all(len(line) <= width for line in lines)
    for line in lines[1:]:
        for figure in ("1.23M", "9,999", " 12 ", " 7"):
            assert figure in line
    assert ("2026-01-01T11:50:00Z" in lines[1]) == (width == 200)
