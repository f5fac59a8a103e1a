"""get, rows and rejected on a home, without the app's file and without a JVM."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.engine.log.manifest import Reason
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from tests.cli.conftest import ROWS, TOTALS, Cli, make_app
from tests.log_files import publish


class TestGet:
    def test_a_row_as_a_table(self, cli: Cli, home: Path) -> None:
        found = cli("get", "totals", "eu", "--home", home)
        assert found.code == 0
        lines = [line.split() for line in found.out.splitlines()]
        assert ["region", "eu"] in lines
        assert ["revenue", "7.5"] in lines
        assert found.err == ""

    def test_a_row_as_json(self, cli: Cli, home: Path) -> None:
        found = cli("get", "shop.totals", "eu", "--home", home, "--json")
        row = {"region": "eu", "n": 3, "revenue": 7.5, "_batch": 1, "_at": "2026-01-01T12:00:01Z"}
        assert found.json == row

    def test_every_type_as_json(self, cli: Cli, home: Path) -> None:
        row = cli("get", "kinds", "x", "--home", home, "--json").json
        assert row == {
            "id": "x",
            "at": "2026-01-01T12:00:00Z",
            "local": "2026-01-01T12:00:00",
            "day": "2026-01-01",
            "price": "1234.00",
            "raw": "AP8=",
            "ratio": "-Infinity",
            "tags": [1.0, "NaN", None],
            "counts": {"1": 2, "3": None},
            "took": "PT3600.5S",
            "_batch": 0,
            "_at": "2026-01-01T12:00:00Z",
        }

    def test_a_key_that_is_not_there(self, cli: Cli, home: Path) -> None:
        found = cli("get", "totals", "mars", "--home", home)
        assert (found.code, found.out) == (1, "")
        assert found.err.startswith("no row with the key mars\n")

    def test_a_key_that_is_not_there_as_json(self, cli: Cli, home: Path) -> None:
        found = cli("get", "totals", "mars", "--home", home, "--json")
        assert found.code == 1
        assert found.json["error"]["kind"] == "QueryError"
        assert found.json["error"]["reason"] == "not_found"

    def test_a_negative_number_is_a_key_and_no_option(self, cli: Cli, home: Path) -> None:
        assert cli("get", "pairs", "-5", "1.5", "--json", "--home", home).json["v"] == "minus"
        assert cli("get", "pairs", "--json", "5", "-2", "--home", home).json["a"] == 5
        assert cli("get", "pairs", "--home", home, "--", "-5", "1.5").code == 0

    def test_the_number_of_parts_is_checked(self, cli: Cli, home: Path) -> None:
        found = cli("get", "pairs", "5", "--home", home)
        assert found.code == 2
        assert "the key has 2 parts, 1 given" in found.err
        assert "a, b" in found.err
        assert cli("get", "pairs", "--home", home).code == 2

    def test_a_key_of_the_wrong_type(self, cli: Cli, home: Path) -> None:
        assert cli("get", "pairs", "five", "1", "--home", home).code == 2

    def test_a_batch_that_is_there_is_no_wait(self, cli: Cli, home: Path) -> None:
        assert cli("get", "totals", "eu", "--at-least", 1, "--home", home).code == 0
        assert cli("get", "totals", "eu", "--wait", "1s", "--home", home).code == 0

    def test_a_batch_that_does_not_come(self, cli: Cli, home: Path) -> None:
        found = cli("get", "totals", "eu", "--at-least", 9, "--wait", "20ms", "--home", home, "--json")
        assert found.code == 1
        assert found.json["error"]["reason"] == "behind_bound"

    def test_a_wait_that_is_no_time(self, cli: Cli, home: Path) -> None:
        assert cli("get", "totals", "eu", "--wait", "soon", "--home", home).code == 2


class TestRows:
    def test_rows_as_a_table(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "totals", "--home", home)
        assert found.code == 0
        lines = found.out.splitlines()
        assert lines[0].split() == ["region", "n", "revenue", "_batch", "_at"]
        assert [line.split()[0] for line in lines[2:]] == ["eu", "us", "ä[b]"]
        assert lines[2].split()[:3] == ["eu", "3", "7.5"]
        assert lines[4].split()[:3] == ["ä[b]", "1", "null"]

    def test_rows_as_json(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "totals", "--home", home, "--json", "--order-by", "n desc")
        assert [(row["region"], row["revenue"]) for row in found.json] == [
            ("eu", 7.5),
            ("us", "NaN"),
            ("ä[b]", None),
        ]

    def test_filter_and_limit(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "totals", "--home", home, "--json", "--where", "n >= 2", "--limit", 1)
        assert [row["region"] for row in found.json] == ["eu"]
        assert found.err == ""

    def test_a_limit_that_is_not_a_number_is_shown(self, cli: Cli, home: Path) -> None:
        refused = cli("rows", "totals", "--home", home, "--limit", "few")
        assert refused.code == 2
        assert refused.err.splitlines()[:2] == [
            "Invalid value for '--limit': must be a valid integer",
            "  given: few",
        ]

    def test_a_limit_says_when_there_is_more(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "totals", "--home", home, "--limit", 2)
        assert len(found.out.splitlines()) == 4
        assert "only the first 2 rows; omit --limit for all" in found.err
        assert cli("rows", "totals", "--home", home, "--limit", 3).err == ""

    def test_no_row_is_an_empty_array_and_an_empty_table(self, cli: Cli, home: Path) -> None:
        assert cli("rows", "totals", "--home", home, "--json", "--where", "n > 99").json == []
        found = cli("rows", "totals", "--home", home, "--where", "n > 99")
        assert (found.code, len(found.out.splitlines())) == (0, 2)

    def test_control_characters_reach_no_terminal(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "pairs", "--home", home)
        assert "\x1b" not in found.out
        assert r"plus\x1b[31m\nred" in found.out

    @pytest.mark.parametrize(
        "words",
        [("--where", "revenu > 1"), ("--order-by", "revenu"), ("--where", "n >"), ("--limit", "-1")],
    )
    def test_the_users_mistakes(self, cli: Cli, home: Path, words: tuple[str, str]) -> None:
        found = cli("rows", "totals", "--home", home, "--json", *words)
        assert found.code == 2
        assert set(found.json) == {"error"}
        assert found.err

    def test_a_bound_that_is_not_reached(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "totals", "--home", home, "--at-least", 2, "--json")
        assert found.code == 1
        assert found.json["error"]["reason"] == "behind_bound"


class TestNames:
    def test_an_unknown_table_suggests_a_near_one(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "total", "--home", home)
        assert found.code == 2
        assert "did you mean 'totals'" in found.err

    def test_an_unknown_app_suggests_a_near_one(self, cli: Cli, home: Path) -> None:
        found = cli("rows", "shp.totals", "--home", home)
        assert found.code == 2
        assert "did you mean 'shop'" in found.err

    def test_two_apps_must_be_told_apart(self, cli: Cli, two_apps: Path) -> None:
        found = cli("get", "totals", "eu", "--home", two_apps)
        assert found.code == 2
        assert "bank.totals, shop.totals" in found.err
        assert cli("get", "bank.totals", "eu", "--home", two_apps).code == 0

    def test_a_home_where_nothing_ran(self, cli: Cli, tmp_path: Path) -> None:
        for command in (("rows",), ("side", "show", "rejected")):
            found = cli(*command, "totals", "--home", tmp_path / "none", "--json")
            assert found.code == 1
            assert found.json["error"]["reason"] == "not_ready"
        assert not (tmp_path / "none").exists()

    def test_the_home_of_the_environment(self, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KEYFOLD_HOME", str(home))
        assert cli("get", "totals", "eu").code == 0

    def test_the_default_home_is_that_of_the_settings(self) -> None:
        from keyfold.engine.storage.home_names import home_of
        from keyfold.settings import Settings

        assert home_of(None) == Settings.model_fields["home"].default

    def test_a_home_that_is_no_local_path(self, cli: Cli) -> None:
        found = cli("rows", "totals", "--home", "s3://bucket/x")
        assert found.code == 2
        assert "s3a://" in found.err

    def test_views_of_a_home_elsewhere_are_in_the_local_directory(
        self, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KEYFOLD_LOCAL", str(home))
        found = cli("get", "shop.totals", "eu", "--home", "s3a://bucket/x")
        assert found.code == 0


class TestRejected:
    def test_of_a_table(self, cli: Cli, home: Path) -> None:
        found = cli("side", "show", "rejected", "shop.totals", "--home", home, "--json").json
        assert [(r["batch"], r["reason"], r["raw"]) for r in found["rows"]] == [
            (0, "does not parse", '{"a'),
            (2, "key a is null", "{}"),
        ]
        assert all(row["at"].endswith("Z") for row in found["rows"])
        assert (found["rejected"], found["streams"]) == (2, [])
        assert found["reasons"] == [
            {"reason": "does not parse", "rows": 1},
            {"reason": "key a is null", "rows": 1},
        ]

    def test_the_list_and_the_former_name_have_the_same_counts(self, cli: Cli, home: Path) -> None:
        shown = cli("side", "show", "rejected", "shop.totals", "--home", home, "--json").json
        assert cli("rejected", "shop.totals", "--home", home, "--json").json == shown
        listed = cli("side", "list", "rejected", "shop.totals", "--home", home, "--json").json
        assert listed == {name: shown[name] for name in ("rejected", "reasons", "streams")}
        lines = cli("side", "list", "rejected", "totals", "--home", home).out.splitlines()
        assert [line.split()[:2] for line in lines[2:]] == [["1", "0"], ["1", "2"]]

    def test_of_a_stream_each_row_once(self, cli: Cli, home: Path) -> None:
        found = cli("side", "show", "rejected", "orders", "--home", home, "--json").json
        assert [row["raw"] for row in found["rows"]] == ['{"a', "{}"]
        assert found["rejected"] == 2

    def test_counts_come_before_rows(self, cli: Cli, home: Path) -> None:
        found = cli("side", "show", "rejected", "totals", "--home", home)
        assert found.code == 0
        lines = [line.split() for line in found.out.splitlines() if line.strip()]
        assert lines[0] == ["rows", "newest", "batch", "reason"]
        assert lines[2:4] == [["1", "0", "does", "not", "parse"], ["1", "2", "key", "a", "is", "null"]]
        assert lines[4] == ["batch", "reason", "raw"]

    def test_a_limit_shows_the_newest(self, cli: Cli, home: Path) -> None:
        found = cli("side", "show", "rejected", "totals", "--home", home, "--limit", 1)
        counts, rows = found.out.split("\n\n")
        assert "does not parse" in counts
        assert "key a is null" in rows
        assert "does not parse" not in rows
        assert "the newest 1 of 2 rows" in found.err
        none = cli("side", "show", "rejected", "totals", "--home", home, "--limit", 0, "--json").json
        assert (none["rows"], none["rejected"]) == ([], 2)

    def test_a_frequent_reason_does_not_hide_a_rare_one(self, cli: Cli, tmp_path: Path) -> None:
        home = AppHome(tmp_path / "shop")
        make_app(home, {TOTALS: ROWS[TOTALS]})
        log = TableLog(home.table("totals").log)
        often = [f'column amount: "v{n}" is not a valid double' for n in range(500)]
        rare = ["key region is null"] * 3 + ["divided by zero"]
        for batch, reasons in enumerate((often, rare, [f"unlike {chr(97 + n)}" for n in range(25)])):
            rows = [{"kind": "rejected", "reason": one, "raw": f"{{{n}}}"} for n, one in enumerate(reasons)]
            publish(log, batch, {"rejected": rows})
        words = ("side", "show", "rejected", "totals", "--home", tmp_path)
        shown = cli(*words)
        counts, rows_ = shown.out.split("\n\n")
        assert counts.splitlines()[2].split()[:2] == ["500", "0"]
        assert "column amount: ... is not a valid double" in counts.splitlines()[2]
        assert counts.splitlines()[3].split() == ["3", "1", "key", "region", "is", "null"]
        assert rows_.count("is not a valid double") == 3
        assert "v499" in rows_
        assert rows_.count("key region is null") == 3
        assert "and 8 more reasons" in shown.err
        assert "the newest 3 rows of each reason; --reason TEXT" in shown.err
        # By a part of a reason, by the reason of a row, and by one as it is counted.
        assert [row["reason"] for row in cli(*words, "--reason", "Region is", "--json").json["rows"]] == rare[
            :3
        ]
        for text in (often[7], "column amount: ... is not a valid double", "not a valid"):
            found = cli(*words, "--reason", text, "--json").json
            assert (found["rejected"], len(found["rows"]), len(found["reasons"])) == (500, 500, 1)
        one = cli(*words, "--reason", "not a valid")
        assert one.out.split("\n\n")[1].count("is not a valid double") == 100
        assert "the newest 100 of 500 rows; --limit N shows more" in one.err
        assert cli(*words, "--reason", "not a valid", "--limit", 2, "--json").json["rejected"] == 500
        none = cli(*words, "--reason", "no such")
        assert (none.code, "no row was rejected for a reason with 'no such'" in none.err) == (0, True)

    def test_rows_that_were_only_counted_are_counted_by_their_reason(self, cli: Cli, tmp_path: Path) -> None:
        home = AppHome(tmp_path / "shop")
        make_app(home, {TOTALS: ROWS[TOTALS]})
        log = TableLog(home.table("totals").log)
        row = {"kind": "rejected", "reason": "key 1 is null", "raw": "{}"}
        made = publish(log, 0, {"rejected": [row]})
        reasons = (
            Reason("key ... is null", 7000, "key 1 is null"),
            Reason("does not parse", 5, "does not parse"),
        )
        log.file(0).put(replace(made, reasons=reasons).encode())
        for name in ("totals", "orders"):
            found = cli("side", "show", "rejected", name, "--home", tmp_path, "--json").json
            assert found["reasons"] == [
                {"reason": "key ... is null", "rows": 7000},
                {"reason": "does not parse", "rows": 5},
            ]
            assert (found["rejected"], len(found["rows"])) == (7005, 1)
        assert (
            "7,004 of these were counted, and not kept"
            in cli("side", "show", "rejected", "totals", "--home", tmp_path).err
        )

    def test_a_table_or_stream_without_any(self, cli: Cli, home: Path) -> None:
        for name in ("kinds", "unread"):
            found = cli("side", "show", "rejected", name, "--home", home, "--json").json
            assert found == {"rejected": 0, "reasons": [], "rows": [], "streams": []}
        assert cli("side", "show", "rejected", "unread", "--home", home).code == 0

    def test_an_unknown_name_suggests_a_near_one(self, cli: Cli, home: Path) -> None:
        found = cli("side", "show", "rejected", "oders", "--home", home)
        assert found.code == 2
        assert "did you mean 'orders'" in found.err

    def test_a_damaged_plan_is_said(self, cli: Cli, tmp_path: Path) -> None:
        home = AppHome(tmp_path / "shop")
        home.path.mkdir()
        home.plan.write_text("{")
        found = cli("side", "show", "rejected", "totals", "--home", tmp_path, "--json")
        assert found.code == 1
        assert found.json["error"]["kind"] == "HomeUnusable"


class TestReadTable:
    """`kf.read_table`, by the path of a home alone."""

    def test_a_table_by_its_name_in_a_home(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        totals = kf.read_table("shop.totals", home=home)
        assert (totals.get("eu", at_least=1) or {})["revenue"] == 7.5
        assert [row["region"] for row in totals.rows(order_by="n")] == ["ä[b]", "us", "eu"]
        assert totals.pandas()["n"].sum() == 6
        assert "<table" in totals._repr_html_()
        monkeypatch.setenv("KEYFOLD_HOME", str(home))
        assert kf.read_table("totals").position() == totals.position()

    def test_the_local_files_of_a_home_stand_for_it(self, home: Path, tmp_path: Path, cli: Cli) -> None:
        home, local = shutil.copytree(home, tmp_path / "home"), tmp_path / "local"
        (local / "shop").mkdir(parents=True)
        (home / "shop" / "views.db").rename(local / "shop" / "views.db")
        AppHome(home / "shop").use_local(local)
        for place in (home, local):
            assert (kf.read_table("shop.totals", home=place).get("eu") or {})["n"] == 3
            assert cli("get", "totals", "eu", "--home", place, "--json").json["n"] == 3
            assert cli("side", "show", "rejected", "shop.totals", "--home", place).code == 0

    def test_what_is_not_there_is_named(self, home: Path, tmp_path: Path) -> None:
        with pytest.raises(kf.QueryError, match="did you mean 'shop'"):
            kf.read_table("shpo.totals", home=home)
        with pytest.raises(kf.QueryError, match="did you mean 'totals'"):
            kf.read_table("shop.totls", home=home).rows()
        with pytest.raises(kf.QueryError, match=f"no app has run in {tmp_path / 'nowhere'}"):
            kf.read_table("totals", home=tmp_path / "nowhere")
        with pytest.raises(BadOption, match="by its home or by a topic"):
            kf.read_table("a:1", "t", home=home)  # type: ignore[call-overload]
