"""side list, show and replay of late rows on a home, without a JVM."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keyfold.engine.log.retention import prune
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.lease import Lease
from tests.cli.conftest import AT, TOTALS, Cli, make_app
from tests.cli.test_windows import PER_HOUR, hours
from tests.log_files import publish

HOUR = timedelta(hours=1)
NAMES = ("list", "show", "replay")


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def put(home: TableHome, batch: int, **ends: datetime) -> None:
    """Late rows of a batch whose watermark was `AT`, by their raw text and when their hour ended."""
    rows = [
        {
            "kind": "late",
            "reason": "closed",
            "raw": raw,
            "event_time": micros(end) - 1,
            "watermark": micros(AT),
            "missed": 1,
            "last_end": micros(end),
            "windows": [{"start": micros(end - HOUR), "end": micros(end)}],
        }
        for raw, end in ends.items()
    ]
    publish(TableLog(home.log), batch, {"late": rows})


@pytest.fixture
def app_home(tmp_path: Path) -> AppHome:
    """The app shop: per_hour keeps closed windows for a day, totals none; its watermark is `AT`."""
    home = AppHome(tmp_path / "home" / "shop")
    batches = [hours("eu", 1, 2), *([] for _ in range(12))]
    make_app(home, {PER_HOUR: batches, TOTALS: [[("eu", 1, 2.5)]]}, keep={"per_hour": "1 day"})
    put(home.table("per_hour"), 3, a=AT - HOUR, b=AT - HOUR * 2)
    put(home.table("per_hour"), 12, c=AT - HOUR * 24, d=AT - HOUR * 23)
    return home


def home(app_home: AppHome) -> tuple[str, str]:
    return ("--home", str(app_home.path.parent))


def sent(app_home: AppHome) -> dict[str, list[str]]:
    files = sorted(app_home.table("per_hour").path.joinpath("side").iterdir())
    return {f.name: [json.loads(line)["raw"] for line in f.read_text().splitlines()] for f in files}


class TestList:
    def test_a_line_for_each_batch(self, cli: Cli, app_home: AppHome) -> None:
        found = cli("side", "list", "late", "shop.per_hour", *home(app_home))
        assert (found.code, found.err) == (0, "")
        lines = [line.split() for line in found.out.splitlines()]
        assert lines[0] == ["batch", "rows", "late", "by", "replayed"]
        assert lines[2:] == [["3", "2", "2", "h", "no"], ["12", "2", "1", "d", "no"]]

    def test_as_json_before_and_after_a_replay(self, cli: Cli, app_home: AppHome) -> None:
        first = {"batch": 3, "rows": 2, "late_by": 7200.0, "replayed": "no", "sent": 0}
        second = {"batch": 12, "rows": 2, "late_by": 86400.0, "replayed": "no", "sent": 0}
        assert cli("side", "list", "late", "per_hour", *home(app_home), "--json").json == [first, second]
        cli("side", "replay", "late", "per_hour", *home(app_home))
        assert cli("side", "list", "late", "per_hour", *home(app_home), "--json").json == [
            {**first, "replayed": "yes", "sent": 2},
            {**second, "replayed": "partly-expired", "sent": 1},
        ]

    def test_a_table_without_late_rows(self, cli: Cli, app_home: AppHome) -> None:
        assert cli("side", "list", "late", "totals", *home(app_home), "--json").json == []
        found = cli("side", "list", "late", "totals", *home(app_home))
        assert (found.code, len(found.out.splitlines())) == (0, 2)


class TestShow:
    def test_rows_with_what_they_missed(self, cli: Cli, app_home: AppHome) -> None:
        found = cli("side", "show", "late", "per_hour", *home(app_home), "--batch", 3)
        lines = [line.split() for line in found.out.splitlines()]
        assert lines[0] == ["batch", "time", "late", "by", "windows", "missed", "raw"]
        hour = "2026-01-01T10:00:00Z/2026-01-01T11:00:00Z"
        assert lines[2] == ["3", "2026-01-01T10:59:59.999999Z", "1", "h", hour, "a"]
        assert len(lines) == 4

    def test_as_json(self, cli: Cli, app_home: AppHome) -> None:
        rows = cli("side", "show", "late", "shop.per_hour", *home(app_home), "--json").json
        assert [row["raw"] for row in rows] == ["a", "b", "c", "d"]
        assert rows[0]["at"].endswith("Z")
        assert {k: rows[0][k] for k in ("batch", "reason", "watermark", "late_by", "missed", "windows")} == {
            "batch": 3,
            "reason": "closed",
            "watermark": "2026-01-01T12:00:00Z",
            "late_by": 3600.0,
            "missed": 1,
            "windows": [{"window_start": "2026-01-01T10:00:00Z", "window_end": "2026-01-01T11:00:00Z"}],
        }

    def test_several_windows_are_counted_and_none_are_no_mistake(self, cli: Cli, app_home: AppHome) -> None:
        late = {
            "kind": "late",
            "reason": "r",
            "raw": "x",
            "event_time": 0,
            "watermark": None,
            "missed": 3,
            "last_end": 1,
            "windows": [{"start": 0, "end": 1_000_000}],
        }
        rows = [late, {**late, "raw": "y", "missed": 0, "windows": []}]
        publish(TableLog(app_home.table("totals").log), 0, {"late": rows})
        lines = cli("side", "show", "late", "totals", *home(app_home)).out.splitlines()
        assert "1970-01-01T00:00:00Z/1970-01-01T00:00:01Z and 2 more" in lines[2]
        assert lines[3].split() == ["0", "1970-01-01T00:00:00Z", "-", "-", "y"]

    def test_a_limit_shows_the_newest(self, cli: Cli, app_home: AppHome) -> None:
        found = cli("side", "show", "late", "per_hour", *home(app_home), "--limit", 1)
        assert found.out.splitlines()[-1].split()[-1] == "d"
        assert "the newest 1 of 4 rows" in found.err
        assert cli("side", "show", "late", "per_hour", *home(app_home), "--limit", 0, "--json").json == []

    def test_a_batch_without_late_rows(self, cli: Cli, app_home: AppHome) -> None:
        found = cli("side", "show", "late", "per_hour", *home(app_home), "--batch", 3, "--batch", 4, "--json")
        assert found.code == 2
        assert found.json["error"]["reason"] == "not_found"
        assert "batches with late rows: 3, 12" in found.err


class TestReplay:
    def test_what_is_sent_is_said_and_sent_once(self, cli: Cli, app_home: AppHome) -> None:
        first = cli("side", "replay", "late", "shop.per_hour", *home(app_home))
        assert first.code == 0
        assert first.out.splitlines() == [
            "3 late rows replayed, folded at the next start of the app",
            "1 late row skipped: their windows closed more than 1 day ago; "
            "the watermark is 2026-01-01T12:00:00Z",
        ]
        assert sent(app_home) == {"replay-000000000003.json": ["a", "b"], "replay-000000000012.json": ["d"]}
        again = cli("side", "replay", "late", "shop.per_hour", *home(app_home))
        assert again.out.splitlines()[:2] == ["0 late rows replayed", "3 late rows skipped: replayed before"]
        assert "folded" not in again.out

    def test_a_row_that_was_late_before_a_distinct_is_not_said_to_have_expired(
        self, cli: Cli, app_home: AppHome
    ) -> None:
        now = micros(AT)
        row = {
            "kind": "late",
            "reason": "older",
            "raw": "e",
            "event_time": now - 1,
            "watermark": now,
            "missed": 0,
            "last_end": now - 1,
            "windows": [],
        }
        publish(TableLog(app_home.table("per_hour").log), 5, {"late": [row]})
        found = cli("side", "replay", "late", "per_hour", *home(app_home), "--batch", 5)
        first, second = found.out.splitlines()
        assert first == "0 late rows replayed"
        assert second.startswith("1 late row skipped: late in a step before the windows (distinct,")

    def test_an_app_that_runs_folds_them_within_seconds(self, cli: Cli, app_home: AppHome) -> None:
        lease = Lease(app_home).take()
        try:
            refused = cli("side", "replay", "late", "per_hour", *home(app_home), "--batch", 3)
            assert refused.code == 3, "another command may be about to erase them"
            assert not (app_home.table("per_hour").path / "side").exists()
            lease.holds_jvm(os.getpid())
            found = cli("side", "replay", "late", "per_hour", *home(app_home), "--batch", 3)
            assert found.out == "2 late rows replayed, folded within seconds\n"
        finally:
            lease.release()
        assert list(sent(app_home)) == ["replay-000000000003.json"]

    def test_as_json(self, cli: Cli, app_home: AppHome) -> None:
        wanted = {"sent": 3, "sent_before": 0, "no_longer_kept": 1, "not_replayable": 0, "under_way": 0}
        wanted["running"] = False
        found = cli("side", "replay", "late", "per_hour", *home(app_home), "--json")
        assert found.json == {"table": "shop.per_hour", **wanted}

    def test_without_views_sparks_own_log_tells_the_watermark(self, cli: Cli, app_home: AppHome) -> None:
        for file in app_home.path.glob("views.db*"):
            file.unlink()
        checkpoint = app_home.table("per_hour").checkpoint
        for log, text in (("commits", "v1"), ("offsets", f'v1\n{{"batchWatermarkMs":{micros(AT) // 1000}}}')):
            (checkpoint / log).mkdir(parents=True)
            (checkpoint / log / "12").write_text(text)
        found = cli("side", "replay", "late", "per_hour", *home(app_home), "--json").json
        assert (found["sent"], found["no_longer_kept"]) == (3, 1)

    def test_where_nothing_tells_a_watermark_every_row_is_sent(self, cli: Cli, app_home: AppHome) -> None:
        for file in app_home.path.glob("views.db*"):
            file.unlink()
        assert cli("side", "replay", "late", "per_hour", *home(app_home), "--json").json["sent"] == 4

    def test_a_batch_under_way_is_left_for_later(self, cli: Cli, app_home: AppHome) -> None:
        put(app_home.table("per_hour"), 13, e=AT)
        found = cli("side", "replay", "late", "per_hour", *home(app_home), "--batch", 13)
        assert found.out.splitlines() == [
            "0 late rows replayed",
            "1 late row skipped: their batch is not complete; run this command again later",
        ]
        assert not app_home.table("per_hour").path.joinpath("side").exists()

    def test_a_table_that_keeps_nothing_is_refused(self, cli: Cli, app_home: AppHome) -> None:
        found = cli("side", "replay", "late", "totals", *home(app_home), "--json")
        assert found.code == 2
        assert found.json["error"]["kind"] == "BadOption"
        assert 'keep="7 days"' in found.err
        assert not app_home.table("totals").path.joinpath("side").exists()

    def test_a_table_that_the_app_no_longer_has(self, cli: Cli, app_home: AppHome) -> None:
        app_home.write_plan(app_home.read_plan().with_declared({}))
        found = cli("side", "replay", "late", "per_hour", *home(app_home))
        assert found.code == 2
        assert "the app no longer declares the table per_hour" in found.err
        assert cli("side", "list", "late", "per_hour", *home(app_home)).code == 0


@pytest.mark.parametrize("command", NAMES)
class TestNames:
    def test_help_has_an_example(self, cli: Cli, command: str) -> None:
        assert f"keyfold side {command} late shop." in " ".join(cli("side", command, "--help").out.split())

    def test_a_stream_names_its_tables(self, cli: Cli, app_home: AppHome, command: str) -> None:
        found = cli("side", command, "late", "shop.orders", *home(app_home), "--json")
        assert (found.code, set(found.json)) == (2, {"error"})
        assert "late rows are kept per table" in found.err
        assert "per_hour, totals" in found.err

    def test_an_unknown_table_suggests_a_near_one(self, cli: Cli, app_home: AppHome, command: str) -> None:
        found = cli("side", command, "late", "per_hou", *home(app_home))
        assert found.code == 2
        assert "did you mean 'per_hour'" in found.err

    def test_a_home_where_nothing_ran(self, cli: Cli, tmp_path: Path, command: str) -> None:
        found = cli("side", command, "late", "per_hour", "--home", tmp_path / "none", "--json")
        assert (found.code, found.json["error"]["reason"]) == (1, "not_ready")


def test_side_alone_asks_for_a_command(cli: Cli) -> None:
    found = cli("side")
    assert found.code == 2
    assert "try: keyfold side --help" in found.err
    assert "'list'" in cli("side", "lst").err


def test_the_former_names_do_the_same(cli: Cli, app_home: AppHome) -> None:
    for words in (("list",), ("show",), ("show", "--batch", 3, "--limit", 1), ("replay",)):
        name, *options = words
        former = cli("late", name, "per_hour", *options, *home(app_home), "--json")
        now = cli("side", name, "late", "per_hour", *options, *home(app_home), "--json")
        if name == "replay":
            assert (former.json["sent"], now.json["sent"], now.json["sent_before"]) == (3, 0, 3)
        else:
            assert former.json == now.json != []


class TestDuplicates:
    @pytest.fixture
    def log(self, app_home: AppHome) -> TableLog:
        log = TableLog(app_home.table("totals").log)
        rows = [{"kind": "duplicate", "raw": raw, "step": "distinct id"} for raw in ("a", "b")]
        publish(log, 0, {"duplicate": rows})
        publish(log, 1, counts={"duplicate": 5})
        return log

    def test_are_counted_by_batch(self, cli: Cli, app_home: AppHome, log: TableLog) -> None:
        found = cli("side", "list", "duplicate", "totals", *home(app_home), "--json").json
        assert [(b["batch"], b["rows"], b["recorded"]) for b in found] == [(0, 2, 2), (1, 5, 0)]
        lines = [
            line.split()
            for line in cli("side", "list", "duplicate", "totals", *home(app_home)).out.splitlines()
        ]
        assert lines[0] == ["batch", "at", "rows", "recorded"]
        assert (lines[3][0], lines[3][-2:]) == ("1", ["5", "0"])

    def test_are_shown_where_they_were_recorded(self, cli: Cli, app_home: AppHome, log: TableLog) -> None:
        found = cli("side", "show", "duplicate", "totals", *home(app_home), "--json").json
        assert [(row["batch"], row["step"], row["raw"]) for row in found] == [
            (0, "distinct id", "a"),
            (0, "distinct id", "b"),
        ]
        lines = cli("side", "show", "duplicate", "totals", *home(app_home), "--limit", 1).out.splitlines()
        assert (len(lines), lines[2].split()[-1]) == (3, "b")
        none = cli("side", "show", "duplicate", "totals", *home(app_home), "--batch", 1)
        assert (none.code, len(none.out.splitlines())) == (0, 2)
        assert "7 duplicates were counted; distinct(..., record_duplicates=True) keeps them" in none.err

    @pytest.mark.parametrize("kind", ["duplicate", "rejected"])
    def test_can_not_be_replayed(self, cli: Cli, app_home: AppHome, kind: str) -> None:
        found = cli("side", "replay", kind, "totals", *home(app_home), "--json")
        assert (found.code, found.json["error"]["kind"]) == (2, "BadOption")
        assert f"{kind} rows can't be replayed" in found.err


class TestDrop:
    def test_the_rows_of_one_kind_go(self, cli: Cli, app_home: AppHome) -> None:
        log = TableLog(app_home.table("per_hour").log)
        publish(log, 25)
        prune(log, read_upto=25)
        found = cli("side", "drop", "late", "shop.per_hour", *home(app_home), "--json").json
        assert {name: found[name] for name in ("batches", "rows")} == {"batches": 2, "rows": 4}
        assert found["bytes"] > 0
        assert cli("side", "list", "late", "per_hour", *home(app_home), "--json").json == []
        again = cli("side", "drop", "late", "per_hour", *home(app_home), "--older-than", "1 day")
        assert again.out.startswith("0 late rows of 0 batches deleted")

    def test_an_app_that_another_command_works_on_is_left_alone(self, cli: Cli, app_home: AppHome) -> None:
        lease = Lease(app_home).take()
        try:
            assert cli("side", "drop", "late", "per_hour", *home(app_home)).code == 3
        finally:
            lease.release()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("list", "lat"), "did you mean 'late'?"),
        (("drop", "per_hour"), "one of: rejected, late, duplicate"),
        (("show", "late", "--reason", "x"), "--reason is not an option for late rows"),
        (("show", "rejected", "--batch", "3"), "--batch is not an option for rejected rows"),
    ],
)
def test_a_kind_or_an_option_that_it_does_not_have_is_refused(
    cli: Cli, app_home: AppHome, words: tuple[str, ...], answer: str
) -> None:
    command, kind, *options = words
    found = cli("side", command, kind, "per_hour", *options, *home(app_home))
    assert found.code == 2
    assert answer in found.err
