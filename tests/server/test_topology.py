"""`/api/apps/{app}/topology`, and the console's types, which are generated from OpenAPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keyfold as kf
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.plan.describe.as_json import to_dict
from keyfold.read import topology
from tests.server.conftest import Get

ROOT = Path(__file__).resolve().parents[2]


def declared() -> kf.App:
    app = kf.App("shop")
    schema = "id string, region string, amount double, at timestamp"
    orders = app.stream("orders", kf.files("data"), schema, time="at", help="one row per order")
    refunds = app.stream("refunds", kf.rows([]), schema, time="at")
    visits = app.stream("visits", kf.kafka("localhost:9092", topic="visits"), schema, time="at")
    names = kf.lookup("names", kf.files("names.csv", format="csv"), "region string, name string")
    totals = orders.enrich(names, on="region").by("region").table("totals", n="count(*)")
    totals.to(kf.kafka("localhost:9092", topic="out"), name="to_kafka")
    united = orders.union(refunds).by("region")
    united.tumbling("1 minute").table("per_minute", n="count(*)")
    united.top(3, by="amount").table("first")
    orders.join(visits, on="id", within="1 hour").by("id").table("joined", n="count(*)")
    visits.enrich(totals, on="region").by("id").table("enriched", n="count(*)")
    totals.changes().by("n").table("regions_by_n", regions="count(*)")
    return app


def test_the_graph_has_what_reads_what() -> None:
    found = topology.of("shop", StoredApp(declared=to_dict(declared().spec())))
    assert [(one.kind, one.name, one.what) for one in found.nodes] == [
        ("stream", "orders", "files data"),
        ("stream", "refunds", "rows"),
        ("stream", "visits", "kafka visits"),
        ("lookup", "names", "files names.csv"),
        ("table", "totals", "by region"),
        ("sink", "to_kafka", "kafka out"),
        ("table", "per_minute", "tumbling 1 minute, by region"),
        ("table", "first", "top 3, by region"),
        ("table", "joined", "by id"),
        ("table", "enriched", "by id"),
        ("table", "regions_by_n", "by n"),
    ]
    assert found.nodes[0].help == "one row per order"
    assert {(one.source, one.target, one.how) for one in found.edges} == {
        ("stream orders", "table totals", "rows"),
        ("lookup names", "table totals", "lookup"),
        ("table totals", "sink totals to_kafka", "write"),
        ("stream orders", "table per_minute", "rows"),
        ("stream refunds", "table per_minute", "rows"),
        ("stream orders", "table first", "rows"),
        ("stream refunds", "table first", "rows"),
        ("stream orders", "table joined", "rows"),
        ("stream visits", "table joined", "rows"),
        ("stream visits", "table enriched", "rows"),
        ("table totals", "table enriched", "enrich"),
        ("table totals", "table regions_by_n", "changes"),
    }
    assert {one.source for one in found.edges} <= {one.id for one in found.nodes}


def test_an_app_without_a_recorded_declaration_has_no_graph() -> None:
    found = topology.of("shop", StoredApp({"totals": StoredTable(streams=("orders",))}))
    assert (found.nodes, found.edges) == ([], [])


def test_a_declaration_without_inputs_has_the_streams_that_its_tables_have_read(get: Get) -> None:
    found = get("/api/apps/shop/topology").json
    assert {one["id"] for one in found["nodes"]} >= {"stream orders", "stream unread", "table totals"}
    assert {"source": "stream orders", "target": "table totals", "how": "rows"} in found["edges"]
    assert get("/api/apps/none/topology").error["reason"] == "not_found"


def test_the_consoles_types_are_those_of_openapi() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "console_types.py", "--check"], check=False)
    assert done.returncode == 0, "run `make docs`"
