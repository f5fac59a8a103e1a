"""Reads by key: composite keys, near keys, several keys, history, and the path of point reads."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.conftest import Answer, Get

TEXTS = "/api/apps/shop/tables/texts/keys"


def without_age(found: Answer) -> Any:
    body = json.dumps({name: value for name, value in found.json.items() if name != "age"})
    headers = {name: value for name, value in found.headers.items() if name not in ("date", "keyfold-age")}
    del headers["content-length"]
    return found.status, headers, body


@pytest.mark.parametrize(
    ("path", "value"),
    [("a/x", "4"), ("a%2Fb/%C3%A4%25", "2"), ("a%2fb/%c3%a4%25", "2"), ("/", "3"), ("a/history", "1")],
)
def test_the_parts_of_a_key_follow_each_other(get: Get, path: str, value: str) -> None:
    found = get(f"{TEXTS}/{path}")
    assert (found.status, found.json["row"]["v"]) == (200, value)
    assert get(f"/api/tables/texts/keys/{path}").json["row"] == found.json["row"]


def test_a_key_is_read_as_the_type_of_its_columns(get: Get) -> None:
    assert get("/api/tables/pairs/keys/-5/1.50").json["row"]["v"] == "minus"
    start, end = "2026-01-01T12:01:00Z", "2026-01-01T13:02:00%2B01:00"
    assert get(f"/api/tables/windows/keys/eu/{start}/{end}").json["row"]["n"] == 1
    wrong = get("/api/tables/pairs/keys/five/1")
    assert (wrong.status, wrong.error["what"]) == (400, "the key part a does not fit its type")


@pytest.mark.parametrize(
    ("path", "status", "near"),
    [
        ("totals/keys/eur", 404, ["eu"]),
        ("totals/keys/%C3%A4%5Bc%5D", 404, ["%C3%A4%5Bb%5D"]),
        ("totals/keys/zzzzz", 404, []),
        ("texts/keys/a/histori", 404, ["a/history"]),
        ("pairs/keys/6/-2.0", 404, ["5/-2.0"]),
    ],
)
def test_a_missing_key_is_answered_with_keys_like_it(
    get: Get, path: str, status: int, near: list[str]
) -> None:
    found = get(f"/api/tables/{path}")
    assert (found.status, found.error["what"]) == (status, "no row has this key")
    assert found.error["near"] == near
    assert found.json["batch"] is not None
    assert found.headers["keyfold-batch"] == str(found.json["batch"])


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("pairs/keys/5", "the key has 2 parts, 1 given"),
        ("totals/keys/eu/1", "the key has 1 part, 2 given"),
        ("totals/keys/%ff", "the key in the address is not UTF-8"),
        ("windows/keys/eu", "the key of a windowed table also needs window_start and window_end"),
    ],
)
def test_a_key_that_can_not_be_one_is_refused(get: Get, path: str, what: str) -> None:
    found = get(f"/api/tables/{path}")
    assert (found.status, found.error["what"]) == (400, what)


@pytest.mark.parametrize("path", ["totals/keys/eu", "TOTALS/keys/eu", "pairs/keys/5/-2.0", "texts/keys/a/x"])
def test_the_path_of_point_reads_answers_as_the_route_does(get: Get, path: str) -> None:
    get("/api/tables/totals/rows")  # the app is known from now on
    # With a parameter that changes nothing, Starlette's route answers.
    quick, routed = get(f"/api/tables/{path}"), get(f"/api/tables/{path}?at_least=0")
    assert without_age(quick) == without_age(routed)
    etag = quick.headers["etag"]
    for suffix in ("", "?at_least=0"):
        known = get(f"/api/tables/{path}{suffix}", if_none_match=f'"x", {etag}')
        assert (known.status, known.body, known.headers["etag"]) == (304, b"", etag)
        assert known.headers["keyfold-batch"] == quick.headers["keyfold-batch"]


def test_several_keys_are_read_at_once(get: Get) -> None:
    body = {"keys": ["eu", ["us"], {"region": "eu"}, "none"]}
    found = get("/api/apps/shop/tables/totals/batch-get", "POST", body).json
    assert [row and row["n"] for row in found["rows"]] == [3, 2, 3, None]
    pairs = get("/api/tables/pairs/batch-get", "POST", {"keys": [[5, -2], ["-5", "1.5"]]}).json
    assert [row["v"][:4] for row in pairs["rows"]] == ["plus", "minu"]
    assert get("/api/tables/totals/batch-get", "POST", {"keys": []}).json["rows"] == []


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        (b"{", 400, "the body is not JSON"),
        (b"[" * 100_000, 400, "the body is not JSON"),
        ([], 400, "an object with an array named keys"),
        ({"keys": "eu"}, 400, "an object with an array named keys"),
        ({"keys": [], "limit": 5}, 400, "an object with an array named keys"),
        ({"keys": [None]}, 400, "key 0 has no parts"),
        ({"keys": ["eu"] * 1001}, 400, "too many keys"),
        ({"keys": [{"place": "eu"}]}, 400, "'place' is not a key column"),
        ({"keys": [["eu", 1]]}, 400, "the key has 1 part, 2 given"),
        ({"keys": [{"region": ["eu"]}]}, 400, "the key part region does not fit its type"),
        (b'"' + b"x" * (1 << 20) + b'"', 413, "the body is too large"),
    ],
)
def test_a_wrong_body_is_refused(get: Get, body: Any, status: int, what: str) -> None:
    found = get("/api/tables/totals/batch-get", "POST", body)
    assert found.status == status
    assert what in found.error["what"]


@pytest.mark.parametrize("table", ["windows", "totals", "texts"])
@pytest.mark.parametrize("key", ["\ud800", ["\ud800", 1], {"\ud800": 1}, {"region": "\ud800"}])
def test_a_lone_surrogate_in_a_key_is_an_error_in_the_one_body(get: Get, table: str, key: Any) -> None:
    found = get(f"/api/tables/{table}/batch-get", "POST", {"keys": [key]})
    assert (found.status, found.error["reason"]) == (400, "bad_request")
    assert found.headers["content-type"] == "application/json"


def test_the_history_of_a_key_is_its_changes(get: Get) -> None:
    found = get("/api/apps/shop/tables/totals/keys/us/history").json
    assert [(one["batch"], one["op"], one["row"]) for one in found["changes"]] == [
        (0, "upsert", {"region": "us", "n": 2, "revenue": None}),
        (1, "delete", {"region": "us"}),
    ]
    assert (found["key"], found["since"]["whole"], found["more"]) == (["us"], True, False)
    newest = get("/api/tables/totals/keys/us/history?limit=1").json
    assert ([one["op"] for one in newest["changes"]], newest["more"]) == (["delete"], True)
    assert get("/api/tables/totals/keys/none/history").json["changes"] == []


def test_a_history_in_other_formats_has_the_rows(get: Get) -> None:
    path = "/api/tables/totals/keys/us/history"
    csv = get(f"{path}?format=csv")
    at = "2026-01-01T12:00:00Z"
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.body.decode().splitlines() == [
        "region,n,revenue,_op,_batch,_at",
        f"us,2,,upsert,0,{at}",
        f"us,,,delete,1,{at.replace('00Z', '01Z')}",
    ]
    lines = get(f"{path}?limit=1", accept="application/x-ndjson").body.splitlines()
    assert [json.loads(line)["_op"] for line in lines] == ["delete"]
    assert get("/api/tables/totals/keys/none/history?format=ndjson").body == b""
    assert get(path, accept="application/vnd.apache.arrow.stream").error["reason"] == "not_acceptable"


def test_history_is_that_of_a_key(get: Get) -> None:
    found = get(f"/api/tables/pairs/keys/{quote('5')}/history")
    assert (found.status, found.json["changes"]) == (200, [])
    none = get("/api/tables/pairs/keys/history")
    assert none.status == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/%61pps/shop/tables/totals/keys/eu", 200),
        ("/api/apps/shop/tables/totals/%6Beys/eu", 200),
        ("/api/apps%2Fshop/tables/totals/keys/eu", 404),
        ("/api%2Fapps/shop/tables/totals/keys/eu", 404),
        ("/api/tables/totals%2Fkeys%2Feu/keys/us", 404),
        ("/api/tables/totals/keys%2Feu", 404),
    ],
)
def test_a_key_is_found_in_the_address_in_which_its_table_was(get: Get, path: str, status: int) -> None:
    """The table is found in the decoded address, and the key in the one that was sent."""
    found = get(path)
    assert found.status == status, found.body
    assert status != 200 or found.json["row"]["region"] == "eu"
