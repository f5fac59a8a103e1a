"""`/keys/{key}/explain`: from a change of a key to its batch, and to the rows that this read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keyfold as kf
from keyfold.engine.internal_columns import OP, PREVIOUS
from keyfold.engine.log.retention import prune
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.plan.describe.as_json import to_dict
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import AT, columns, make_app
from tests.log_files import publish
from tests.server.conftest import Get, client, serving

SCHEMA = "id string, region string, amount long, at timestamp"
ORDERS = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("amount", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
)
KEYED = {
    "totals": ViewSchema("totals", columns(region="string"), columns(n="long")),
    "cents": ViewSchema("cents", columns(place="string"), columns(n="long")),
    "computed": ViewSchema("computed", columns(day="date"), columns(n="long")),
    "minutes": ViewSchema(
        "minutes",
        columns(region="string", window_start="timestamp", window_end="timestamp"),
        columns(n="long"),
    ),
    "by_n": ViewSchema("by_n", columns(n="long"), columns(regions="long")),
    "pages": ViewSchema("pages", columns(page="string"), columns(n="long")),
    "files": ViewSchema("files", columns(page="string"), columns(n="long")),
}
MINUTE = timedelta(minutes=1)


def declared() -> kf.App:
    app = kf.App("shop")
    orders = app.stream("orders", kf.files("data"), SCHEMA, time="at", history="7 days")
    views = app.stream(
        "views", kf.kafka("localhost:9092", topic="views"), "page string, at timestamp", time="at"
    )
    clicks = app.stream("clicks", kf.files("clicks"), "page string, at timestamp", time="at")
    paid = orders.where("amount > 0")
    totals = paid.by("region").table("totals", n="sum(amount)")
    paid.select("region as place", "amount").by("place").table("cents", n="sum(amount)")
    orders.by(day="date(at)").table("computed", n="count(*)")
    orders.by("region").tumbling("1 minute").table("minutes", n="count(*)")
    totals.changes().by("n").table("by_n", regions="count(*)")
    views.by("page").table("pages", n="count(*)")
    clicks.by("page").table("files", n="count(*)")
    return app


def order(number: int, region: str, minute: int = 0) -> dict[str, Any]:
    return {"id": f"o{number}", "region": region, "amount": number, "at": AT + minute * MINUTE}


def reads(table: TableHome, name: str) -> None:
    """Records that position 0 of a table's offsets is the log of that name."""
    table.storage.put(f"inputs/0-{name}/use.json", json.dumps({"layout": 1, "positions": [0]}).encode())


def change(home: AppHome, table: str, batch: int, row: dict[str, Any], offset: Any) -> None:
    """Publishes a batch of a table with one change, which has read its source up to an offset."""
    fields = [(one.name, one.type.arrow) for one in KEYED[table].all if not one.name.startswith("_")]
    schema, log = pa.schema([(OP, pa.string()), *fields]), TableLog(home.table(table).log)
    changed = [{OP: "upsert", **row}]
    publish(log, batch, {"change": changed}, schema=schema, at=AT + batch * MINUTE, offsets=[offset])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> AppHome:
    home = AppHome(tmp_path_factory.mktemp("explain") / "shop")
    make_app(home, {schema: [] for schema in KEYED.values()})
    home.write_plan(
        StoredApp({name: StoredTable() for name in KEYED}, declared=to_dict(declared().spec()), app="shop")
    )
    log = TableLog(home.stream_home("orders").log)
    batches = [
        [order(1, "eu"), order(2, "us")],
        [order(3, "eu", 1), order(-4, "eu", 1)],
        [order(5, "eu", 2)],
        [order(6, "eu", 3)],
    ]
    for number, rows in enumerate(batches):
        publish(log, number, {"change": rows}, schema=ORDERS, at=AT + number * MINUTE)
    for name in ("totals", "cents", "computed", "minutes"):
        reads(home.table(name), "orders")
    reads(home.table("by_n"), "totals")
    for batch, n, upto in ((0, 1, 0), (1, 9, 2), (2, 15, 3)):
        change(home, "totals", batch, {"region": "eu", "n": n}, upto)
        change(home, "cents", batch, {"place": "eu", "n": n}, upto)
    change(home, "computed", 0, {"day": AT.date(), "n": 2}, 0)
    windowed = {"region": "eu", "window_start": AT + MINUTE, "window_end": AT + 2 * MINUTE, "n": 2}
    change(home, "minutes", 0, windowed, 3)
    change(home, "by_n", 0, {"n": 9, "regions": 1}, 1)
    for batch, upto in ((0, {"views": {"0": 5, "1": 9}}), (1, {"views": {"0": 5, "1": 12}})):
        change(home, "pages", batch, {"page": "home", "n": 1}, upto)
        change(home, "files", batch, {"page": "home", "n": 1}, {"logOffset": batch})
        file = {"path": f"clicks:/{batch}.json", "size": 1, "timestamp": 1, "batchId": batch}
        home.table("files").storage.put(f"checkpoint/sources/0/{batch}", f"v1\n{json.dumps(file)}".encode())
    return home


@pytest.fixture(scope="module")
def get(shop: AppHome) -> Iterator[Get]:
    with serving(shop.path.parent) as server:
        yield client(server)


def explained(get: Get, key: str, query: str = "") -> Any:
    found = get(f"/api/apps/shop/tables/{key}/explain{query}")
    assert found.status == 200, found.body
    return found.json["explanation"]


def test_the_newest_change_has_the_rows_of_its_batch(get: Get) -> None:
    found = explained(get, "totals/keys/eu")
    assert (found["change"]["batch"], found["change"]["row"]["n"], found["before"]["row"]["n"]) == (2, 15, 9)
    assert (found["changes"], found["counts"]["change"]) == (3, 1)
    (read,) = found["inputs"]
    assert (read["kind"], read["name"], read["first"], read["last"]) == ("stream", "orders", 3, 3)
    assert [(one["batch"], one["row"]["id"]) for one in read["rows"]] == [(3, "o6")]
    assert read["missing"] is None


def test_a_batch_that_read_several_batches_has_all_their_rows_of_the_key(get: Get) -> None:
    found = explained(get, "totals/keys/eu", "?batch=1")
    (read,) = found["inputs"]
    assert (read["first"], read["last"], read["steps"]) == (1, 2, ["where amount > 0"])
    # Rows are those before the steps: the one that `where` leaves out is among them.
    assert [one["row"]["id"] for one in read["rows"]] == ["o3", "o-4", "o5"]
    first = explained(get, "totals/keys/eu", "?batch=0")
    assert (first["before"], [one["row"]["id"] for one in first["inputs"][0]["rows"]]) == (None, ["o1"])


def test_a_key_that_a_select_renames_is_found_in_the_stream(get: Get) -> None:
    (read,) = explained(get, "cents/keys/eu", "?batch=0")["inputs"]
    assert [one["row"]["id"] for one in read["rows"]] == ["o1"]
    assert read["steps"] == ["where amount > 0", "select"]


def test_a_key_that_is_computed_says_why_there_are_no_rows(get: Get) -> None:
    (read,) = explained(get, f"computed/keys/{AT.date()}")["inputs"]
    assert (read["rows"], read["first"], read["last"]) == (None, 0, 0)
    assert "no column date(at)" in read["missing"]


def test_a_windows_rows_are_those_with_a_time_in_it(get: Get) -> None:
    start, end = (AT + MINUTE).isoformat(), (AT + 2 * MINUTE).isoformat()
    key = f"minutes/keys/eu/{start}/{end}".replace("+", "%2B")
    (read,) = explained(get, key)["inputs"]
    assert [one["row"]["id"] for one in read["rows"]] == ["o3", "o-4"]


def test_a_table_of_a_table_has_the_changes_that_it_read(get: Get) -> None:
    (read,) = explained(get, "by_n/keys/9")["inputs"]
    assert (read["kind"], read["name"]) == ("table", "totals")
    assert [(one["op"], one["row"]) for one in read["rows"]] == [("upsert", {"region": "eu", "n": 9})]


def test_a_row_that_left_the_key_is_found_by_the_row_before_it(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    make_app(home, {KEYED["by_n"]: []})
    home.write_plan(StoredApp({"by_n": StoredTable()}, declared=to_dict(declared().spec()), app="shop"))
    before = pa.struct([("n", pa.int64())])
    schema = pa.schema([(OP, pa.string()), (PREVIOUS, before), ("region", pa.string()), ("n", pa.int64())])
    moved = {OP: "upsert", PREVIOUS: {"n": 1}, "region": "eu", "n": 2}
    new = {OP: "upsert", PREVIOUS: None, "region": "us", "n": 1}
    other = {OP: "upsert", PREVIOUS: {"n": 3}, "region": "asia", "n": 4}
    publish(TableLog(home.table("totals").log), 0, {"change": [moved, new, other]}, schema=schema)
    reads(home.table("by_n"), "totals")
    change(home, "by_n", 0, {"n": 1, "regions": 1}, 0)
    with serving(tmp_path) as server:
        (read,) = explained(client(server), "by_n/keys/1")["inputs"]
    assert [(one["row"]["region"], one["row"]["n"], one["before"]) for one in read["rows"]] == [
        ("eu", 2, {"n": 1}),
        ("us", 1, None),
    ]


def test_each_use_of_a_log_has_its_own_batches(tmp_path: Path) -> None:
    app = kf.App("shop")
    orders = app.stream("orders", kf.files("data"), SCHEMA, time="at")
    totals = orders.by("region").table("totals", n="sum(amount)")
    cents = orders.select("region as place", "amount").by("place").table("cents", n="sum(amount)")
    big, all_ = totals.changes().where("n > 5"), totals.changes().select("n")
    big.select("n").union(cents.changes().select("n"), all_).by("n").table("by_n", regions="count(*)")
    home = AppHome(tmp_path / "shop")
    make_app(home, {KEYED["by_n"]: []})
    home.write_plan(StoredApp({"by_n": StoredTable()}, declared=to_dict(app.spec()), app="shop"))
    table = home.table("by_n")
    # The last two are those of an earlier definition.
    for name, at in (("0-totals", 0), ("1-cents", 1), ("2-totals", 2), ("1-totals", 1), ("10-totals", 1)):
        document = json.dumps({"layout": 1, "positions": [at]}).encode()
        table.storage.put(f"inputs/{name}/use.json", document)
    schema = pa.schema([(OP, pa.string()), ("n", pa.int64()), ("regions", pa.int64())])
    changed = {"change": [{OP: "upsert", "n": 1, "regions": 1}]}
    publish(TableLog(table.log), 0, changed, schema=schema, offsets=[3, 5, 7])
    with serving(tmp_path) as server:
        found = explained(client(server), "by_n/keys/1")["inputs"]
    assert [(one["name"], one["last"], one["steps"][0]) for one in found] == [
        ("totals", 3, "where n > 5"),
        ("cents", 5, "select"),
        ("totals", 7, "select"),
    ]


def test_without_a_log_it_says_which_positions_were_read(get: Get) -> None:
    (topic,) = explained(get, "pages/keys/home")["inputs"]
    assert (topic["kind"], topic["name"], topic["offsets"]) == ("topic", "views", {"1": [9, 12]})
    assert topic["rows"] is None
    assert "history= or shared=True" in topic["missing"]
    (files,) = explained(get, "files/keys/home")["inputs"]
    assert (files["kind"], files["name"], files["files"]) == ("files", "clicks", ["1.json"])


@pytest.mark.parametrize(
    ("path", "status", "what"),
    [
        ("totals/keys/eu/explain?batch=9", 404, "the key has no change in batch 9"),
        ("totals/keys/nowhere/explain", 404, "the log has no change of this key"),
        ("minutes/keys/eu/explain", 400, "an explanation is that of one row"),
        ("totals/keys/explain", 404, "no row has this key"),
    ],
)
def test_what_has_no_explanation_is_refused(get: Get, path: str, status: int, what: str) -> None:
    found = get(f"/api/apps/shop/tables/{path}")
    assert (found.status, found.error["what"]) == (status, what)


def test_rows_that_have_left_the_streams_log_are_said_to_be_missing(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    make_app(home, {KEYED["totals"]: []})
    home.write_plan(StoredApp({"totals": StoredTable()}, declared=to_dict(declared().spec()), app="shop"))
    log = TableLog(home.stream_home("orders").log)
    for number in range(20):
        publish(log, number, {"change": [order(number, "eu")]}, schema=ORDERS)
    reads(home.table("totals"), "orders")
    change(home, "totals", 0, {"region": "eu", "n": 1}, 3)
    assert prune(log, 5) == 5
    with serving(tmp_path) as server:
        (read,) = explained(client(server), "totals/keys/eu")["inputs"]
    assert read["rows"] is None
    assert "the rows have left the log" in read["missing"]
    assert "history=" in read["missing"]
