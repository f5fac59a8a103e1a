"""`client.mirror`: a table in memory or in a file, in step with the server, and what ends it."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.client import Client, Mirror, RemoteTable, connect
from keyfold.client.connection import Connections
from keyfold.engine.log import retention
from keyfold.engine.polling import wait_until
from keyfold.errors import QueryError
from keyfold.read import open_home
from keyfold.server import endpoint
from keyfold.server.address import listen
from keyfold.server.serving import Serving
from tests.cli.conftest import AT
from tests.server.conftest import serving
from tests.server.test_changes import PLAIN, A, App, app

__all__ = ["app"]


@pytest.fixture
def remote(app: App) -> Iterator[Client]:
    app.commit(A, ("upsert", "x", 1), ("upsert", "y", 1))
    with serving(app.home.path.parent) as server, connect(server.url) as found:
        yield found


@pytest.fixture(params=["memory", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "mirror.db" if request.param == "file" else None


def values(mirror: Mirror) -> dict[str, int]:
    return {row["k"]: row["n"] for row in mirror.rows()}


def test_a_mirror_follows_its_table(remote: Client, app: App, path: Path | None) -> None:
    with remote.mirror("a", path) as mirror:
        assert (values(mirror), mirror.batch, mirror.position) == ({"x": 1, "y": 1}, 0, "shop.a@1e1")
        app.commit(A, ("upsert", "x", 2), ("delete", "y", None), ("upsert", "z", 3))
        assert mirror.wait(1, timeout=20) == 1
        assert values(mirror) == {"x": 2, "z": 3}
        assert (mirror.get("x"), mirror.get(k="z"), mirror.get("y")) == (
            {"k": "x", "n": 2},
            {"k": "z", "n": 3},
            None,
        )
        assert (len(mirror), mirror.keys) == (2, ["k"])
        with pytest.raises(QueryError, match=r"the mirror is at batch 1 after 0\.01 s") as caught:
            mirror.wait(2, timeout=0.01)
        assert caught.value.reason == "behind_bound"
        for wrong in (
            {"args": ("x", 1)},
            {"args": ()},
            {"named": {"n": 1}},
            {"args": ("x",), "named": {"k": 1}},
        ):
            with pytest.raises(QueryError, match="not all parts of the key"):
                mirror.get(*wrong.get("args", ()), **wrong.get("named", {}))


def test_a_table_without_a_batch_has_no_rows_yet(remote: Client, app: App, path: Path | None) -> None:
    with remote.mirror("b", path) as mirror:
        assert (mirror.rows(), mirror.batch) == ([], None)


def test_a_mirror_that_is_waited_for_can_be_closed(remote: Client, app: App, path: Path | None) -> None:
    mirror = remote.mirror("a", path)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            mirror.wait(7)
        except QueryError as error:
            errors.append(error)

    waits = threading.Thread(target=wait)
    waits.start()
    mirror.close()
    waits.join(20)
    assert [str(error).splitlines()[0] for error in errors] == ["the mirror is closed"]
    with pytest.raises(QueryError, match="the mirror is closed"):
        mirror.rows()
    assert remote.table("a").rows() != []


def test_a_file_goes_on_from_its_position(app: App, tmp_path: Path) -> None:
    app.commit(A, ("upsert", "x", 1))
    file = tmp_path / "new" / "mirror.db"
    # Until the end nobody else gets this port, on which a server listens now and then.
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with connect(f"http://127.0.0.1:{port}") as remote:
            with open_home(app.home.path.parent) as reader:
                server = Serving(reader, listen("127.0.0.1", port))
                server.start()
                with remote.mirror("shop.a", file) as mirror:
                    assert values(mirror) == {"x": 1}
                server.stop()
            # The server is away, but its rows are here; they are marked, to see that they are not read again.
            with sqlite3.connect(file) as changed:
                changed.execute("""UPDATE rows SET row = '{"k": "x", "n": 99}'""")
            app.commit(A, ("upsert", "y", 2))
            with remote.mirror("shop.a", file) as mirror, open_home(app.home.path.parent) as reader:
                assert (values(mirror), mirror.get("x"), mirror.batch) == ({"x": 99}, {"k": "x", "n": 99}, 0)
                server = Serving(reader, listen("127.0.0.1", port))
                server.start()
                mirror.wait(1, timeout=20)
                assert values(mirror) == {"x": 99, "y": 2}
                server.stop()
    assert file.stat().st_mode & 0o077 == 0


def test_a_position_that_is_gone_begins_anew(remote: Client, app: App, tmp_path: Path) -> None:
    file = tmp_path / "mirror.db"
    with remote.mirror("a", file) as mirror:
        assert mirror.batch == 0
    app.commit(A, ("delete", "x", None))
    app.commit(A, ("upsert", "z", 3))
    retention.prune(app.log("a"), 1, newest=1 + retention.NEWEST)
    with remote.mirror("a", file) as mirror:
        mirror.wait(2, timeout=20)
        assert values(mirror) == {"y": 1, "z": 3}


def test_a_running_mirror_of_a_table_that_is_reset_again_and_again_begins_anew(
    remote: Client, app: App, path: Path | None
) -> None:
    def shows(mirror: Mirror, expected: dict[str, int]) -> bool:
        return wait_until(lambda: values(mirror) == expected, 20)

    app.commit(A, ("upsert", "x", 5))
    with remote.mirror("a", path) as mirror:
        for round in range(3):
            assert shows(mirror, {"x": round or 5, **({"z": round} if round else {"y": 1})})
            reset(app, {"k": "x", "n": round + 1})
            assert shows(mirror, {"x": round + 1})
            app.commit(A, ("upsert", "z", round + 1))


def reset(app: App, row: dict[str, Any]) -> None:
    """Begins the table anew, with a row in its first batch."""
    shutil.rmtree(app.home.table("a").log)
    app.next["a"] = 0
    app.publish("a", [{"_op": "upsert", **row}], PLAIN)
    found = pa.RecordBatch.from_pylist([{"_op": "upsert", **row}], schema=A.arrow)
    app.views.rebuild("a", A, [found], 0, AT)


def test_too_many_feeds_are_waited_for(remote: Client, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    stream = Connections.stream

    def counted(self: Connections, path: str, *rest: Any, **named: Any) -> Any:
        asked.append(path)
        if len(asked) == 3:
            monkeypatch.setattr(endpoint, "MOST_FEEDS", 1_000)
        return stream(self, path, *rest, **named)

    monkeypatch.setattr(Connections, "stream", counted)
    monkeypatch.setattr(endpoint, "MOST_FEEDS", 0)
    with remote.mirror("a") as mirror:
        assert (values(mirror), len(asked)) == ({"x": 1, "y": 1}, 3)
    monkeypatch.setattr(endpoint, "MOST_FEEDS", 0)
    with pytest.raises(QueryError, match="too many feeds") as caught:
        remote.mirror("a", patience=0)
    assert caught.value.reason == "too_many"


def test_a_server_that_goes_between_rows_and_their_schema_is_waited_for(
    remote: Client, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, failures = RemoteTable.schema.fget, [OSError("away")] * 2
    assert schema is not None

    def failing(self: RemoteTable) -> Any:
        if failures:
            raise remote.connections.unreachable(failures.pop())
        return schema(self)

    monkeypatch.setattr(RemoteTable, "schema", property(failing))
    with remote.mirror("a") as mirror:
        assert (values(mirror), failures) == ({"x": 1, "y": 1}, [])
    failures.append(OSError("away"))
    with pytest.raises(QueryError, match="the server does not answer: away"):
        remote.mirror("a", patience=0)


def test_a_mirror_whose_connection_is_to_be_closed_is_closed_at_once() -> None:
    left = threading.Event()
    head = {"app": "shop", "table": "a", "batch": 0}

    class Old(BaseHTTPRequestHandler):
        """A proxy that speaks HTTP 1.0: the end of an answer is that of its connection."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            if not self.path.startswith("/api/changes"):
                keys = [{"name": "k", "type": "string"}]
                self.wfile.write(json.dumps({"keys": keys, "columns": []}).encode())
                return
            row = json.dumps({**head, "row": {"k": "x"}})
            end = json.dumps({**head, "rows": 1})
            self.wfile.write(
                f"event: row\ndata: {row}\n\nid: shop.a@1\nevent: snapshot\ndata: {end}\n\n".encode()
            )
            left.wait(60)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        serves = threading.Thread(target=server.serve_forever)
        serves.start()
        with connect(f"http://127.0.0.1:{server.server_port}") as remote:
            mirror = remote.mirror("a")
            assert mirror.rows() == [{"k": "x"}]
            closes = threading.Thread(target=mirror.close, daemon=True)
            closes.start()
            # Half of the time after which a silent server counts as away.
            closes.join(15)
            is_closed = not closes.is_alive()
        left.set()
        server.shutdown()
        serves.join()
    assert is_closed


def test_rows_and_position_of_a_file_change_together(remote: Client, app: App, tmp_path: Path) -> None:
    file = tmp_path / "mirror.db"
    with remote.mirror("a", file) as mirror:
        with sqlite3.connect(file) as other:
            other.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON rows BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
        app.commit(A, ("delete", "x", None), ("upsert", "z", 1))
        with pytest.raises(sqlite3.IntegrityError, match="full"):
            mirror.wait(1, timeout=20)
    with sqlite3.connect(file) as other:
        assert other.execute("SELECT batch, (SELECT count(*) FROM rows) FROM mirror").fetchall() == [(0, 2)]


def test_errors_reach_readers(remote: Client, app: App, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="no table c in app shop"):
        remote.mirror("c")
    file = tmp_path / "mirror.db"
    remote.mirror("a", file).close()
    with pytest.raises(QueryError, match="the file mirrors a"):
        remote.mirror("b", file)
    text = tmp_path / "text"
    text.write_text("no database, but a text that is long enough for one" * 20)
    with pytest.raises(QueryError, match="the file can't be used"):
        remote.mirror("a", text)
    with remote.mirror("a", file) as first, remote.mirror("a", file) as second:
        app.commit(A, ("upsert", "x", 5))
        errors: list[Any] = []

        def one_has_ended() -> bool:
            for mirror in (first, second):
                try:
                    mirror.rows()
                except QueryError as error:
                    errors.append(error)
            return bool(errors)

        wait_until(one_has_ended, seconds=20)
        assert errors[0].what == "another process has changed the file"


def test_a_server_that_stays_away_ends_the_mirror(app: App) -> None:
    app.commit(A, ("upsert", "x", 1))
    with serving(app.home.path.parent) as server:
        remote = connect(server.url)
        mirror = remote.mirror("a", patience=0)
    with pytest.raises(QueryError, match=r"the server does not answer|stopping"):
        mirror.wait(1, timeout=20)
    depths = set()
    for _ in range(3):
        with pytest.raises(QueryError) as caught:
            mirror.rows()
        depths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert len(depths) == 1
    mirror.close()
    remote.close()
