"""`as_of`: one row, some rows and all rows as they were after an earlier batch, and what is gone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from keyfold.client import connect
from keyfold.engine.log import retention
from keyfold.errors import QueryError
from keyfold.server.serving import Serving
from tests.cli.conftest import AT
from tests.server.conftest import Get, client, serving
from tests.server.test_changes import A, App, app

__all__ = ["app"]
ROW = "/api/tables/a/keys/x"
ROWS = "/api/tables/a/rows"


@pytest.fixture
def server(app: App) -> Iterator[Serving]:
    app.commit(A, ("upsert", "x", 1), ("upsert", "y", 1), ("upsert", "z", 1))
    app.commit(A, ("upsert", "x", 2), ("delete", "y", None))
    app.commit(A, ("delete", "x", None), ("upsert", "w", 3))
    with serving(app.home.path.parent) as found:
        yield found


@pytest.fixture
def get(server: Serving) -> Get:
    return client(server)


def values(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["k"]: row["n"] for row in rows}


def test_one_row_as_of_a_batch(get: Get) -> None:
    found = get(f"{ROW}?as_of=1")
    assert (found.json["row"]["n"], found.json["row"]["_batch"], found.json["batch"]) == (2, 1, 1)
    assert (found.headers["keyfold-batch"], found.json["position"]) == ("1", "shop.a@2")
    assert get(f"{ROW}?as_of=0").json["row"]["n"] == 1
    assert (get(f"{ROW}?as_of=2").status, get(ROW).status) == (404, 404)
    keys = get("/api/tables/a/batch-get?as_of=0", "POST", {"keys": ["w", "x", {"k": "y"}]}).json
    assert (keys["batch"], [row and row["n"] for row in keys["rows"]]) == (0, [None, 1, 1])


def test_rows_as_of_a_batch_in_every_format(get: Get) -> None:
    assert values(get(f"{ROWS}?as_of=0").json["rows"]) == {"x": 1, "y": 1, "z": 1}
    assert values(get(f"{ROWS}?as_of=1&n.gt=1").json["rows"]) == {"x": 2}
    assert values(get(f"{ROWS}?as_of=2").json["rows"]) == values(get(ROWS).json["rows"]) == {"w": 3, "z": 1}
    csv = get(f"{ROWS}?as_of=1&format=csv&order_by=n%20desc").body.decode().splitlines()
    assert [line.split(",")[:3] for line in csv[1:]] == [["x", "2", "1"], ["z", "1", "0"]]
    arrow = get(f"{ROWS}?as_of=1&format=arrow").body
    assert pa.ipc.open_stream(io.BytesIO(arrow)).read_all().column("n").to_pylist() == [2, 1]
    first = get(f"{ROWS}?as_of=0&limit=2").json
    assert values(get(f"{ROWS}?as_of=0&limit=2&cursor={first['next']}").json["rows"]) == {"z": 1}


def test_the_past_has_versions_of_its_own(get: Get, app: App) -> None:
    etags = [get(f"{ROWS}?as_of={batch}").headers["etag"] for batch in range(3)]
    assert len(set(etags)) == 3
    app.commit(A, ("upsert", "x", 9))
    for path in (ROWS, ROW):
        assert get(f"{path}?as_of=1", if_none_match=etags[1]).status == 304
    assert get(f"{ROWS}?as_of=1", if_none_match=etags[2]).status == 200


def test_what_the_log_does_not_tell_is_gone(get: Get, app: App) -> None:
    retention.prune(app.log("a"), 0, newest=retention.NEWEST)
    found = get(f"{ROWS}?as_of=1")
    assert (found.status, found.error["reason"], found.json["oldest_batch"]) == (410, "gone", None)
    # The body says how far the view is now.
    assert (found.json["batch"], found.headers["keyfold-batch"]) == (2, "2")
    assert get(f"{ROWS}?as_of=1&format=csv").status == 410
    old = get(f"{ROW}?as_of=0")
    assert (old.status, old.json["oldest_batch"], old.error["hint"]) == (410, 1, "as_of=1, or a later batch")
    assert get(f"{ROW}?as_of=1").json["row"]["n"] == 2


def test_wrong_values_and_the_future(get: Get) -> None:
    assert get(f"{ROW}?as_of=soon").error["what"] == "as_of is neither a batch nor a time"
    assert get(f"{ROW}?as_of=3").error["reason"] == "behind_bound"
    assert get(f"{ROWS}?as_of=2099-01-01").status == 409
    assert get("/api/tables/b/rows?as_of=0").error["what"] == "the view has no batch yet"
    assert get("/api/tables/a/batches?as_of=0").error["what"] == "unknown parameter 'as_of'"


def test_the_client_reads_the_past(server: Serving) -> None:
    with connect(server.url) as remote:
        a = remote.table("a")
        assert a.get("x", as_of=1) == a.rows({"k": "x"}, as_of=1)[0] == a.page("k = 'x'", as_of=1).rows[0]
        # All batches of this log have the same time, of which the last one counts.
        assert values(a.rows(as_of=AT + timedelta(hours=1))) == {"w": 3, "z": 1}
        with pytest.raises(QueryError, match="before batch 7"):
            a.get("x", as_of=7)
