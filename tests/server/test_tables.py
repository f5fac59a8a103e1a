"""Apps, tables, batches, side outputs, savepoints, health; unknown names and methods."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from pathlib import Path

import pytest

from keyfold.engine.storage.layout import AppHome
from tests.cli.conftest import AT, ROWS, TOTALS, Cli, cli, make_app
from tests.server.conftest import Get, client, serving

__all__ = ["cli"]


def test_the_apps_of_a_home_are_listed(get: Get, home: Path) -> None:
    found = get("/api/apps").json
    (shop,) = found["apps"]
    assert found["home"] == str(home)
    assert (shop["name"], shop["state"], shop["running"], shop["problem"]) == ("shop", "stopped", False, None)
    assert shop["tables"] == ["totals", "pairs", "kinds", "windows", "texts"]


def test_the_status_is_that_of_the_command_line(get: Get, cli: Cli, home: Path) -> None:
    assert get("/api/apps/shop").json == cli("status", "shop", "--home", home, "--json").json[0]


def test_a_table_has_columns_position_and_followers(get: Get) -> None:
    found = get("/api/apps/shop/tables/TOTALS").json
    assert (found["app"], found["table"], found["batch"], found["windowed"]) == ("shop", "totals", 1, False)
    assert found["watermark"] == "2026-01-01T12:00:00Z"
    assert found["age"] > 0
    assert found["keys"] == [{"name": "region", "type": "string"}]
    assert found["columns"] == [{"name": "n", "type": "bigint"}, {"name": "revenue", "type": "double"}]
    assert found["followers"] == [{"kind": "view", "name": "totals", "batch": 1}]
    assert found["status"]["keys"] == 3
    assert get("/api/tables/windows").json["windowed"] is True


def test_batches_are_those_of_the_log(get: Get, cli: Cli, home: Path) -> None:
    found = get("/api/tables/totals/batches?limit=1").json
    shown = cli("log", "show", "totals", "--home", home, "--json").json
    assert found["batches"] == shown["batches"][-1:]
    assert (found["total"], found["removed_upto"]) == (2, -1)


def test_rows_that_were_not_folded_are_those_of_the_command_line(get: Get, cli: Cli, home: Path) -> None:
    found = get("/api/tables/totals/side/rejected?limit=2").json
    shown = cli("side", "show", "rejected", "totals", "--home", home, "--json").json
    assert found["rows"] == shown["rows"][-2:]
    assert found["reasons"] == [{"reason": "amount ... is not a double", "rows": 3}] == shown["reasons"]
    assert (found["more"], found["streams"]) == (True, [])
    for kind in ("late", "duplicate"):
        found = get(f"/api/tables/totals/side/{kind}").json
        assert found["rows"] == cli("side", "show", kind, "totals", "--home", home, "--json").json
        assert (len(found["rows"]), found["more"], found["reasons"]) == (1, False, None)
    unknown = get("/api/tables/totals/side/rejects")
    assert (unknown.status, unknown.error["near"]) == (404, ["rejected"])


def test_a_home_without_savepoints(get: Get) -> None:
    assert get("/api/apps/shop/savepoints").json == {"app": "shop", "savepoints": []}


def test_health(get: Get) -> None:
    assert (get("/healthz").status, get("/healthz").json) == (200, {"status": "ok"})
    assert get("/readyz").json == {"status": "ready", "apps": {"shop": "stopped"}}


@pytest.mark.parametrize(
    ("path", "what", "near"),
    [
        ("/api/apps/shap", "no app shap in", ["shop"]),
        ("/api/apps/shap/tables/totals/keys/eu", "no app shap in", ["shop"]),
        ("/api/tables/total", "no table total in app shop", ["totals"]),
        ("/api/tables/total/rows", "no table total in app shop", ["totals"]),
        ("/api/tables/total/keys/eu", "no table total in app shop", ["totals"]),
        ("/api/tables/total/rows?at_least=1", "no table total in app shop", ["totals"]),
        ("/api/app", "nothing is served at this address", ["/api/apps"]),
        ("/api/apps/", "nothing is served at this address", ["/api/apps"]),
        ("/x", "nothing is served at this address", []),
    ],
)
def test_unknown_names_are_answered_with_near_ones(get: Get, path: str, what: str, near: list[str]) -> None:
    found = get(path)
    assert (found.status, found.error["reason"]) == (404, "not_found")
    assert what in found.error["what"]
    assert found.error["near"] == near


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/api/apps", "GET, HEAD"),
        ("DELETE", "/api/tables/totals/keys/eu", "GET, HEAD"),
        ("GET", "/api/tables/totals/batch-get", "POST"),
        ("OPTIONS", "/healthz", "GET, HEAD"),
    ],
)
def test_a_method_that_an_address_lacks_is_refused(get: Get, method: str, path: str, allowed: str) -> None:
    found = get(path, method)
    assert (found.status, found.headers["allow"]) == (405, allowed)
    assert (found.error["reason"], found.error["hint"]) == ("not_allowed", allowed)


def test_a_head_request_has_the_headers_alone(get: Get) -> None:
    found = get("/api/tables/totals/keys/eu", "HEAD")
    assert (found.status, found.body, found.headers["keyfold-batch"]) == (200, b"", "1")


def test_parameters_that_a_route_lacks_are_refused(get: Get) -> None:
    found = get("/api/tables/totals/batches?limt=5")
    assert (found.status, found.error["near"]) == (400, ["limit"])
    assert get("/healthz?x=1").status == 400


def test_with_several_apps_an_address_names_the_app(tmp_path: Path) -> None:
    for app in ("shop", "bank"):
        make_app(AppHome(tmp_path / app), {TOTALS: ROWS[TOTALS]})
    with serving(tmp_path) as server:
        get = client(server)
        found = get("/api/tables/totals/rows")
        assert (found.status, found.error["what"]) == (
            404,
            "the home has several apps, and the address does not say which",
        )
        assert "bank, shop" in found.error["hint"]
        feed = get("/api/changes?tables=totals")
        assert feed.error["hint"] == "tables=APP.totals; APP is one of: bank, shop"
        assert get("/api/apps/bank/tables/totals/keys/eu").json["app"] == "bank"


def test_a_home_in_which_nothing_has_run_yet(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        get = client(server)
        assert get("/api/apps").json["apps"] == []
        assert get("/healthz").status == 200
        for path in ("/readyz", "/api/apps/shop", "/api/tables/totals/keys/eu"):
            found = get(path)
            assert (found.status, found.error["reason"], found.headers["retry-after"]) == (
                503,
                "not_ready",
                "1",
            )
        # An app that starts now is seen.
        make_app(AppHome(tmp_path / "home" / "shop"), {TOTALS: ROWS[TOTALS]})
        assert get("/readyz").status == 200
        assert get("/api/tables/totals/keys/eu").json["row"]["n"] == 3


def test_an_app_that_is_dropped_is_gone_and_one_made_anew_is_read(tmp_path: Path) -> None:
    import shutil

    shop = AppHome(tmp_path / "shop")
    make_app(shop, {TOTALS: ROWS[TOTALS]})
    with serving(tmp_path) as server:
        get = client(server)
        assert get("/api/tables/totals/keys/eu").json["batch"] == 1
        shutil.rmtree(shop.path)
        assert get("/api/tables/totals/keys/eu").status == 503
        make_app(shop, {TOTALS: [[("eu", 9, 0.5)]]})
        assert get("/api/tables/totals/keys/eu").json["row"]["n"] == 9


def test_a_view_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    shop = AppHome(tmp_path / "shop")
    make_app(shop, {TOTALS: ROWS[TOTALS]})
    (tmp_path / "shop" / "app.json").write_text("{")
    with serving(tmp_path) as server:
        (line,) = client(server)("/api/apps").json["apps"]
        assert line["state"] is None
        assert "app.json can't be read" in line["problem"]
        ready = client(server)("/readyz")
        assert (ready.status, ready.error["where"]) == (503, "shop")
        # Rows need no app.json.
        assert client(server)("/api/tables/totals/keys/eu").status == 200


def test_times_of_batches_are_in_utc(get: Get) -> None:
    (first, _) = get("/api/tables/totals/batches").json["batches"]
    assert first["at"] == (AT + timedelta()).isoformat().replace("+00:00", "Z")


def test_side_outputs_in_other_formats_have_the_rows(get: Get) -> None:
    path = "/api/tables/totals/side/rejected"
    expected = get(path).json["rows"]
    lines = get(f"{path}?format=ndjson").body.splitlines()
    assert [json.loads(line) for line in lines] == expected != []
    head, *rows = csv.reader(get(path, accept="text/csv").body.decode().splitlines())
    assert [dict(zip(head, row, strict=True))["raw"] for row in rows] == [row["raw"] for row in expected]
    late = get("/api/tables/totals/side/late?format=csv").body.decode().splitlines()
    assert "windows" in late[0].split(",")
    assert get(f"{path}?format=arrow").error["hint"] == "one of: json, ndjson, csv"
