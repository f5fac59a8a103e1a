"""`/metrics`: what the status of apps says and what the server does, read by Prometheus' own parsers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from starlette.types import Message

from keyfold.engine.polling import wait_until
from keyfold.engine.storage import views_address
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.read.status import State
from keyfold.server import streaming
from keyfold.server.metrics.definitions import SECTIONS
from keyfold.server.metrics.requests import ServerMetrics
from keyfold.server.serving import Serving
from keyfold.views.sqlite.store import SqliteStore
from tests.cli.conftest import ROWS, make_app
from tests.server.conftest import Get, client, serving
from tests.server.metered import OPENMETRICS, fill_metered, scrape
from tests.server.sse import Reader
from tests.tools import tool
from tests.unit.read.test_status import AT, STATUS, TABLE

ROOT = Path(__file__).resolve().parents[2]
NAMES = [one.name for _, metrics in SECTIONS.values() for one in metrics]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("metered") / "home"
    fill_metered(home)
    return home


@pytest.fixture
def server(home: Path) -> Iterator[Serving]:
    with serving(home) as found:
        yield found


@pytest.fixture
def get(server: Serving) -> Get:
    return client(server)


def test_a_stopped_app_has_the_figures_of_its_last_run(get: Get) -> None:
    found = scrape(get)
    of = {"app": "shop", "table": "totals"}
    at = datetime.fromisoformat(AT).timestamp()
    assert found.value("keyfold_app_readable", app="shop") == 1
    assert found.value("keyfold_app_status_timestamp_seconds", app="shop") == at
    assert found.value("keyfold_app_failures", app="shop") == 1
    assert found.value("keyfold_table_running", **of) == 0
    assert found.value("keyfold_table_rows_per_second", **of) == 0
    assert found.value("keyfold_table_batches_total", **of) == TABLE["batch"] + 1
    assert found.value("keyfold_table_last_commit_timestamp_seconds", **of) == at
    assert found.value("keyfold_table_last_batch_duration_seconds", **of) == 0.35
    assert found.value("keyfold_table_keys", **of) == 7
    assert found.value("keyfold_table_lag_rows", **of) == 4
    assert found.value("keyfold_table_partition_lag_rows", partition="orders-0", **of) == 4
    assert found.value("keyfold_table_side_output_rows_total", kind="rejected", **of) == 2
    assert found.value("keyfold_table_rejecting", **of) == 1
    assert found.value("keyfold_stream_recorded_rows_total", app="shop", stream="orders") == 98
    assert found.value("keyfold_lookup_failing", app="shop", lookup="regions") == 0
    watermark = datetime.fromisoformat(TABLE["watermark"]).timestamp()
    assert found.value("keyfold_table_watermark_timestamp_seconds", **of) == watermark
    for name, since in (("keyfold_table_lag_seconds", watermark), ("keyfold_table_view_age_seconds", at)):
        assert found.value(name, **of) == pytest.approx(time.time() - since, abs=60)


def test_what_is_not_known_is_left_out(get: Get) -> None:
    found = scrape(get)
    assert found.value("keyfold_table_state_bytes", app="shop", table="totals") == 1 << 20
    assert found.value("keyfold_table_state_bytes", app="shop", table="pairs") is None
    assert found.value("keyfold_table_keys", app="shop", table="pairs") is None
    assert found.value("keyfold_table_running", app="shop", table="pairs") == 0


def test_the_state_of_an_app_is_one_of_all(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    make_app(home, ROWS)
    with serving(tmp_path) as server:
        get, lease = client(server), Lease(home).take()
        try:
            # After so many seconds without a status it would not be responding.
            later = datetime.now(UTC) + timedelta(hours=1)
            home.write_status({**STATUS, "at": later.isoformat(), "failures": []})
            states = scrape(get).samples("keyfold_app_state")
            assert scrape(get).value("keyfold_table_rows_per_second", app="shop", table="totals") == 1.5
        finally:
            lease.release()
        assert {dict(labels)["state"]: value for labels, value in states.items()} == {
            **dict.fromkeys(get_args(State), 0),
            "running": 1,
        }
        assert scrape(get).value("keyfold_app_state", app="shop", state="killed") == 1


def test_an_app_that_can_not_be_read_leaves_the_others(get: Get, home: Path) -> None:
    found = scrape(get)
    assert found.value("keyfold_app_readable", app="damaged") == 0
    assert [name for name in NAMES if any(("app", "damaged") in one for one in found.samples(name))] == [
        "keyfold_app_readable"
    ]
    odd = AppHome(home / "odd")
    make_app(odd, ROWS)
    odd.write_status({**STATUS, "tables": {"totals": {**TABLE, "batch": "twelve"}}})
    found = scrape(get)
    assert found.value("keyfold_app_readable", app="odd") == 0
    assert found.value("keyfold_app_readable", app="shop") == 1


def test_no_view_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting keys reads a whole view, and a database may not answer."""
    for name in ("local", "remote"):
        make_app(AppHome(tmp_path / name), ROWS)
    views_address.record(AppHome(tmp_path / "remote").storage, "postgresql://127.0.0.1:1/x")
    asked: list[str] = []
    monkeypatch.setattr(SqliteStore, "count", lambda self, table, *_: asked.append(table))
    with serving(tmp_path) as server:
        get = client(server)
        found = scrape(get)
        assert [found.value("keyfold_app_readable", app=app) for app in ("local", "remote")] == [1, 1]
        assert asked == []
        get("/api/apps/local")
    assert asked


def test_a_home_without_apps_has_metrics(tmp_path: Path) -> None:
    with serving(tmp_path / "none") as server:
        found = scrape(client(server))
    assert found.samples("keyfold_app_readable") == {}
    assert found.value("keyfold_feed_readers") == 0


def test_every_metric_is_named_as_prometheus_asks(get: Get) -> None:
    for accept in (None, OPENMETRICS):
        families = scrape(get, accept).families
        for name in NAMES:
            # OpenMetrics, and this parser, name a counter without what its samples end in.
            family = families[name.removesuffix("_total")]
            assert re.fullmatch(r"keyfold_[a-z]+(_[a-z]+)*", name)
            assert not re.search(r"_(ms|millis|minutes|kb|mb|percent|count|sum)(_|$)", name), name
            assert family.type == ("counter" if name.endswith("_total") else "gauge")
            assert family.documentation.endswith("."), name
        assert not [name for name in scrape(get, accept).labels() if name.endswith("_created")]
    assert len(set(NAMES)) == len(NAMES)


def test_labels_are_names_and_words_alone(get: Get) -> None:
    """Nothing that grows with keys, runs, batches or the reasons of rejections."""
    found = scrape(get).labels()
    of_apps = {"app", "table", "stream", "lookup", "state", "partition", "kind", "phase"}
    assert set().union(*found.values()) <= of_apps | {"route", "method", "status", "le", "reason"}
    text = get("/metrics").body.decode()
    assert "key a is null" not in text
    assert "no\\nluck" not in text


def test_requests_are_timed_by_route(get: Get) -> None:
    key = "/api/apps/{app}/tables/{table}/keys/{key}"
    for path in ("eu", "us", "none", "eu?columns=n"):
        get(f"/api/apps/shop/tables/totals/keys/{path}")
    get("/api/apps/shop/tables/totals/keys/eu", "HEAD")
    get("/no/such/address")
    get("/no/such/address", "PROPFIND")
    get("/healthz", host="example.com")
    found = scrape(get)

    def count(route: str, status: int, method: str = "GET") -> float | None:
        name = "keyfold_http_request_duration_seconds_count"
        return found.value(name, route=route, method=method, status=str(status))

    assert (count(key, 200), count(key, 404), count(key, 400), count(key, 200, "HEAD")) == (2, 1, 1, 1)
    assert (count("other", 404), count("other", 404, "other"), count("other", 403)) == (1, 1, 1)
    text = get("/metrics").body.decode()
    assert "/no/such" not in text
    assert "PROPFIND" not in text
    total = "keyfold_http_request_duration_seconds_sum"
    assert 0 < (found.value(total, route=key, method="GET", status="200") or 0) < 60
    assert scrape(get).value(total.replace("sum", "count"), route="/metrics", method="GET", status="200") == 2


def test_readers_of_changes_are_counted_until_they_leave(server: Serving, get: Get) -> None:
    readers = [Reader(server, "tables=shop.totals") for _ in range(2)]
    assert scrape(get).value("keyfold_feed_readers") == 2
    for reader in readers:
        reader.close()
    assert wait_until(lambda: scrape(get).value("keyfold_feed_readers") == 0, 20)
    found = scrape(get)
    ended = found.samples("keyfold_feed_disconnects_total")
    assert {dict(labels)["reason"]: value for labels, value in ended.items()} == {
        "left": 2,
        "slow": 0,
        "closed": 0,
        "failed": 0,
    }
    # A feed takes as long as its reader wants.
    timed = found.samples("keyfold_http_request_duration_seconds_count")
    assert not [labels for labels in timed if ("route", "/api/changes") in labels]
    assert get("/api/changes?tables=shop.none").status == 404
    refused = {"route": "/api/changes", "method": "GET", "status": "404"}
    assert scrape(get).value("keyfold_http_request_duration_seconds_count", **refused) == 1


@pytest.mark.parametrize("reason", ["slow", "closed", "failed"])
def test_it_is_counted_why_a_feed_ended(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SLOWEST_SECONDS", 0.01)
    metrics = ServerMetrics()

    async def pieces() -> AsyncIterator[bytes]:
        if reason == "failed":
            raise OSError("no disk")
        yield b": piece"

    async def stay() -> Message:
        return await asyncio.Event().wait() and {}

    async def send(message: Message) -> None:
        if reason == "slow" and message.get("body"):
            await stay()

    asyncio.run(streaming.Events("text/event-stream", pieces(), {}, metrics)({}, stay, send))
    (readers,) = [one for one in metrics.collect() if one.name == "keyfold_feed_readers"]
    (ended,) = [one for one in metrics.collect() if one.name == "keyfold_feed_disconnects"]
    assert readers.samples[0].value == 0
    assert {s.labels["reason"] for s in ended.samples if s.value} == {reason}


def test_the_document_of_an_error_is_json(get: Get) -> None:
    answer = get("/metrics?app=shop")
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["given"] == "app=shop"


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    assert page.endswith(f"{tool('reference_metrics').metrics_page()}\n"), "run tools/reference.py"
    assert [name for name in NAMES if f"| `{name}` |" not in page] == []
