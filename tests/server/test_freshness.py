"""How far a view is: what answers say, `max_age`, `at_least` and `wait`, and names of versions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.engine.storage.layout import AppHome
from keyfold.server import freshness
from keyfold.views.contract import ViewStore
from keyfold.views.query.filters import Compare
from tests.cli.conftest import TOTALS, make_app
from tests.server.conftest import Get, client, serving

ROW = "/api/tables/totals/keys/eu"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ViewStore]:
    """The views of an app, as the app has them open."""
    make_app(AppHome(tmp_path / "home" / "shop"), {TOTALS: [[("eu", 0, 0.0)]]})
    with AppHome(tmp_path / "home" / "shop").views.open(read_only=False) as store:
        yield store


@pytest.fixture
def get(store: ViewStore, tmp_path: Path) -> Iterator[Get]:
    with serving(tmp_path / "home") as server:
        yield client(server)


def write(store: ViewStore, batch: int, n: int, at: datetime | None = None) -> None:
    row = pa.RecordBatch.from_pylist(
        [{"_op": "upsert", "region": "eu", "n": n, "revenue": 1.0}], schema=TOTALS.arrow
    )
    with store.batch("totals", batch, at or datetime.now(UTC), datetime(2026, 1, 1, tzinfo=UTC)) as writer:
        writer.apply(row)


@pytest.mark.parametrize("path", [ROW, f"{ROW}?at_least=0", "/api/tables/totals/rows", "/api/tables/totals"])
def test_an_answer_says_batch_watermark_and_age(get: Get, store: ViewStore, path: str) -> None:
    write(store, 1, 1)
    found = get(path)
    assert (found.json["batch"], found.json["watermark"]) == (1, "2026-01-01T00:00:00Z")
    assert 0 <= found.json["age"] < 60
    assert {name: found.headers[f"keyfold-{name}"] for name in ("batch", "watermark", "age")} == {
        name: str(found.json[name]) for name in ("batch", "watermark", "age")
    }


def test_a_view_that_is_too_old_is_refused(get: Get, store: ViewStore) -> None:
    write(store, 1, 1, datetime.now(UTC) - timedelta(minutes=5))
    found = get(f"{ROW}?max_age=4m")
    assert (found.status, found.error["reason"], found.error["given"]) == (412, "too_old", "max_age=240s")
    assert (found.json["batch"], found.json["age"] >= 300) == (1, True)
    assert get(f"{ROW}?max_age=1h").status == 200


def test_a_batch_that_is_not_there_is_refused_with_the_position(get: Get, store: ViewStore) -> None:
    write(store, 4, 1)
    for query in ("at_least=5", "at_least=5&wait=20ms"):
        found = get(f"{ROW}?{query}")
        assert (found.status, found.error["reason"]) == (409, "behind_bound")
        assert found.error["what"].startswith("the view is at batch 4, behind batch 5")
        assert found.json["batch"] == 4
    assert get(f"{ROW}?at_least=4").status == 200


def test_a_reader_waits_for_a_batch(get: Get, store: ViewStore) -> None:
    timer = threading.Timer(0.1, write, (store, 7, 70))
    timer.start()
    found = get(f"{ROW}?at_least=7&wait=20s")
    timer.join()
    assert (found.json["batch"], found.json["row"]["n"]) == (7, 70)


def test_a_reader_that_waits_is_told_that_the_server_stops(
    store: ViewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_come, answers, reach = threading.Event(), [], freshness.reach

    async def told(*given: Any) -> None:
        has_come.set()
        await reach(*given)

    monkeypatch.setattr(freshness, "reach", told)
    with serving(tmp_path / "home") as server:
        get = client(server)
        waits = threading.Thread(target=lambda: answers.append(get(f"{ROW}?at_least=7&wait=20s")))
        waits.start()
        assert has_come.wait(20)
    waits.join()
    assert (answers[0].status, answers[0].error["what"]) == (503, "the server is stopping")
    assert (answers[0].error["reason"], answers[0].headers["retry-after"]) == ("not_ready", "1")


def test_readers_that_wait_keep_nobody_else_from_reading(get: Get, store: ViewStore) -> None:
    """More of them than there are threads."""
    statuses: list[int] = []
    waiting = [
        threading.Thread(target=lambda: statuses.append(get(f"{ROW}?at_least=2&wait=20s").status))
        for _ in range(60)
    ]
    for thread in waiting:
        thread.start()
    assert get("/api/tables/totals/rows").status == 200
    write(store, 2, 2)
    for thread in waiting:
        thread.join()
    assert statuses == [200] * 60


def test_a_version_is_known_until_rows_change(get: Get, store: ViewStore) -> None:
    write(store, 1, 1)
    for path in (ROW, "/api/tables/totals/rows"):
        etag = get(path).headers["etag"]
        assert get(path, if_none_match=etag).status == 304
        assert get(path, if_none_match="*").status == 304
        assert get(path, if_none_match='W/"other"').status == 200
    write(store, 2, 2)
    assert get(ROW, if_none_match=etag).json["row"]["n"] == 2


def test_a_row_that_was_erased_is_not_said_to_be_as_it_was(get: Get, store: ViewStore) -> None:
    """An erasure leaves the view at its batch."""
    write(store, 1, 1)
    etag = get(ROW).headers["etag"]
    store.erase("totals", Compare(TOTALS.keys[0], "=", "eu"), 1)
    assert get(ROW, if_none_match=etag).status == 404
    rows = get("/api/tables/totals/rows", if_none_match=etag)
    assert (rows.status, rows.json["rows"], rows.json["batch"]) == (200, [], 1)


def test_a_log_that_is_ahead_of_the_view_has_no_version(get: Get, store: ViewStore) -> None:
    for path in ("batches", "side/late", "keys/eu/history", ""):
        assert "etag" not in get(f"/api/tables/totals/{path}".rstrip("/")).headers


def test_a_table_without_a_batch_has_no_age(get: Get, store: ViewStore, tmp_path: Path) -> None:
    store.drop("totals")
    store.create(TOTALS)
    found = get("/api/tables/totals/rows")
    assert (found.json["batch"], found.json["age"], found.json["rows"]) == (None, None, [])
    assert "keyfold-batch" not in found.headers
    assert get(f"{ROW}?max_age=1h").error["what"] == "the view has no batch yet"
    assert get(ROW).error["hint"] == "the table has no batch yet"


def plan(home: AppHome, batch: int, offset: int) -> None:
    """Writes how far a batch of totals reads partition 3 of topic orders, as Spark does."""
    offsets = f'v1\n{{"batchWatermarkMs":0}}\n{{"orders":{{"3":{offset}}}}}'
    home.table("totals").storage.put(f"checkpoint/offsets/{batch}", offsets.encode())


def test_a_producer_reads_its_writes_by_their_position(get: Get, store: ViewStore, tmp_path: Path) -> None:
    home = AppHome(tmp_path / "home" / "shop")
    plan(home, 1, 1234)
    write(store, 1, 1)
    assert get(f"{ROW}?after=orders/3@1233").json["row"]["n"] == 1
    for query in ("after=orders/3@1234", "after=orders/3@7&after=orders/3@1234&wait=20ms"):
        found = get(f"{ROW}?{query}")
        assert (found.status, found.error["reason"], found.json["batch"]) == (409, "behind_bound", 1)
        assert found.json["present"] == {"orders/3": "orders/3@1233"}
    plan(home, 2, 1235)
    timer = threading.Timer(0.1, write, (store, 2, 20))
    timer.start()
    found = get(f"{ROW}?after=orders/3@1234&wait=20s")
    timer.join()
    assert (found.json["batch"], found.json["row"]["n"]) == (2, 20)
    assert get(f"{ROW}?after=order/3@1").error["hint"] == "did you mean 'orders'?"
    assert get(f"{ROW}?after=orders/3").error["what"] == "not a position"


def test_a_position_of_an_answer_is_one_to_read_after(get: Get, store: ViewStore, tmp_path: Path) -> None:
    home = AppHome(tmp_path / "home" / "shop")
    for batch in (1, 2):
        plan(home, batch, batch)
    write(store, 1, 1)
    first = get(ROW).json["position"]
    assert first == get("/api/tables/totals/rows?format=csv").headers["keyfold-position"] == "shop.totals@2"
    write(store, 2, 2)
    second = get(ROW).json["position"]
    for path in (ROW, "/api/tables/totals/rows", "/api/tables/totals/batches", "/api/tables/totals"):
        assert get(f"{path}?after={first},{second}").json["position"] == second
        behind = get(f"{path}?after=shop.totals@4e1")
        assert (behind.status, behind.json["present"]) == (409, {"shop.totals": "shop.totals@3"})


def test_at_least_and_after_hold_together(get: Get, store: ViewStore, tmp_path: Path) -> None:
    plan(AppHome(tmp_path / "home" / "shop"), 1, 5)
    write(store, 1, 1)
    assert get(f"{ROW}?at_least=1&after=orders/3@4").status == 200
    assert get(f"{ROW}?at_least=2&after=orders/3@4").error["what"].endswith("behind batch 2")
    assert get(f"{ROW}?at_least=1&after=orders/3@5").status == 409
