"""`/rows`: filters, order, pages and formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest

from tests.cli.conftest import Cli, cli
from tests.server.conftest import Get

__all__ = ["cli"]
ROWS = "/api/apps/shop/tables/totals/rows"


def regions(get: Get, *query: tuple[str, Any]) -> list[str]:
    found = get(f"{ROWS}?{urlencode(query)}")
    assert found.status == 200, found.body
    return [row["region"] for row in found.json["rows"]]


@pytest.mark.parametrize("table", ["totals", "pairs", "kinds", "windows"])
def test_values_are_those_that_the_command_line_prints(get: Get, cli: Cli, home: Path, table: str) -> None:
    found = get(f"/api/tables/{table}/rows").json
    assert found["rows"] == cli("rows", table, "--home", home, "--json").json
    assert found["next"] is None
    assert (found["app"], found["table"]) == ("shop", table)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ((("region", "eu"),), ["eu"]),
        ((("region", "eu"), ("region", "us")), ["eu", "us"]),
        ((("REGION.ne", "eu"),), ["us", "ä[b]"]),
        ((("n.gt", 1), ("n.le", 3)), ["eu", "us"]),
        ((("n.ge", "1.5"), ("n.lt", 3)), ["us"]),
        ((("region.like", "%u%"),), ["eu", "us"]),
        ((("revenue.null", "true"),), ["ä[b]"]),
        ((("revenue.null", "false"), ("n", 3)), ["eu"]),
        ((("_batch", 1),), ["eu", "ä[b]"]),
        ((("where", "n > 1 or region like 'ä%'"), ("n.lt", 3)), ["us", "ä[b]"]),
        ((("order_by", "n desc"),), ["eu", "us", "ä[b]"]),
        ((("order_by", "n"), ("limit", 1)), ["ä[b]"]),
    ],
)
def test_rows_are_filtered_by_column_and_ordered(
    get: Get, query: tuple[tuple[str, Any], ...], expected: list[str]
) -> None:
    assert regions(get, *query) == expected


@pytest.mark.parametrize(
    ("query", "what", "near"),
    [
        ("regoin=eu", "unknown parameter or column 'regoin'", ["region"]),
        ("n.gtt=1", "unknown operator 'gtt'", ["gt"]),
        ("m.gt=1", "unknown column 'm'", []),
        ("n=many", "the value does not fit the column's type", []),
        ("n.like=1", "like is for strings", []),
        ("n.null=yes", "null is true or false", []),
        ("limit=0", "limit must be a whole number of at least 1", []),
        (f"limit={10**17}", "limit is at most 9,007,199,254,740,992", []),
        (f"limit={10**30}", "limit is at most 9,007,199,254,740,992", []),
        ("limit=10001", "a page has at most 10,000 rows", []),
        ("limit=1&limit=2", "limit is given twice", []),
        ("format=jsn", "unknown format 'jsn'", ["json"]),
        ("order_by=m", "unknown column in order_by 'm'", []),
        ("where=n+%3E", "where", []),
        ("cursor=abc", "the cursor is damaged", []),
        ("from=2026-01-01", "the table is not windowed", []),
        ("max_age=soon", "max_age is not a duration", []),
        ("wait=2h&at_least=1", "wait is at most 1 minute", []),
        ("&".join(f"n.gt={n}" for n in range(101)), "too many filters", []),
    ],
)
def test_a_wrong_parameter_is_named_with_what_to_do(get: Get, query: str, what: str, near: list[str]) -> None:
    found = get(f"{ROWS}?{query}")
    assert found.status == 400, found.body
    assert what in found.error["what"]
    assert (found.error["reason"], found.error["near"]) == ("bad_request", near)
    assert found.error["hint"]


def test_a_column_that_is_named_like_a_parameter_is_filtered_with_its_operator(get: Get) -> None:
    assert "unknown column 'limit'" in get(f"{ROWS}?limit.eq=5").error["what"]


def test_pages_follow_each_other_by_their_cursor(get: Get) -> None:
    seen, cursor = [], ""
    while True:
        found = get(f"{ROWS}?order_by=n&limit=1{cursor}").json
        seen += [row["region"] for row in found["rows"]]
        if found["next"] is None:
            break
        cursor = f"&cursor={quote(found['next'])}"
    assert seen == ["ä[b]", "us", "eu"]
    other = get(f"{ROWS}?order_by=region&limit=1{cursor}")
    assert (other.status, other.error["what"]) == (400, "the cursor was made for another order")


def test_windows_are_chosen_by_time(get: Get) -> None:
    query = urlencode({"from": "2026-01-01T12:01:00Z", "to": "2026-01-01T12:03:00Z"})
    found = get(f"/api/tables/windows/rows?{query}").json
    assert [row["n"] for row in found["rows"]] == [1, 2]
    empty = get("/api/tables/windows/rows?from=2026-01-02&to=2026-01-01")
    assert (empty.status, empty.error["hint"]) == (400, "from must be before to, which is exclusive")
    assert get("/api/tables/windows/rows?from=yesterday").error["what"] == "from is not a date or timestamp"


def test_ndjson_has_a_row_per_line(get: Get) -> None:
    found = get(f"{ROWS}?format=ndjson&limit=2")
    assert found.headers["content-type"] == "application/x-ndjson"
    rows = [json.loads(line) for line in found.body.splitlines()]
    assert rows == get(ROWS).json["rows"][:2]
    assert found.headers["keyfold-batch"] == "1"


def test_a_stream_has_no_most_rows(get: Get) -> None:
    assert len(get(f"{ROWS}?format=ndjson&limit=1000000").body.splitlines()) == 3


def test_csv_is_that_of_the_command_line(get: Get, cli: Cli, home: Path) -> None:
    found = get("/api/tables/kinds/rows", accept="text/csv")
    assert found.headers["content-type"] == "text/csv; charset=utf-8"
    assert found.body.decode() == cli("rows", "kinds", "--home", home, "--format", "csv").out
    (head, row) = csv.reader(io.StringIO(found.body.decode()))
    assert (head[0], row[0]) == ("id", "x")


def test_arrow_has_sparks_types(get: Get) -> None:
    found = get("/api/tables/kinds/rows", accept="text/html;q=0.1, application/vnd.apache.arrow.stream")
    assert found.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(found.body).read_all()
    assert table.column_names == list(get("/api/tables/kinds/rows").json["rows"][0])
    assert str(table.schema.field("price").type) == "decimal128(20, 2)"
    assert table.num_rows == 1
    empty = get("/api/tables/kinds/rows?id=none&format=arrow")
    assert pa.ipc.open_stream(empty.body).read_all().num_rows == 0


def test_an_accept_without_a_format_of_ours_is_refused(get: Get) -> None:
    found = get(ROWS, accept="text/html")
    assert (found.status, found.error["reason"]) == (406, "not_acceptable")
    assert "text/csv" in found.error["hint"]
    assert (
        get(ROWS, accept="text/*;q=0.5, application/json;q=0").headers["content-type"].startswith("text/csv")
    )


def test_a_stream_goes_on_behind_a_page(get: Get) -> None:
    page = get(f"{ROWS}?limit=1").json
    found = get(f"{ROWS}?format=ndjson&cursor={quote(page['next'])}")
    assert [json.loads(line)["region"] for line in found.body.splitlines()] == ["us", "ä[b]"]
