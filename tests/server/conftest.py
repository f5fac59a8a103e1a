"""A home as runs leave it, a server of it on a free port, and a client that shows all of an answer."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.engine.internal_columns import OP
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.read import open_home
from keyfold.server.address import listen
from keyfold.server.serving import Serving
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import AT, ROWS, columns, make_app
from tests.late_rows import START, said
from tests.log_files import publish

WINDOWS = ViewSchema(
    "windows", columns(region="string", window_start="timestamp", window_end="timestamp"), columns(n="long")
)
TEXTS = ViewSchema("texts", columns(a="string", b="string"), columns(v="string"))
FIELDS = [("region", pa.string()), ("n", pa.int64()), ("revenue", pa.float64())]
CHANGES = pa.schema([(OP, pa.string()), *FIELDS])


@dataclass(frozen=True)
class Answer:
    """An answer: status, headers in lower case, and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which must be standard JSON."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is no JSON")

        return json.loads(self.body, parse_constant=refuse)

    @property
    def error(self) -> Any:
        """The error in the body."""
        return self.json["error"]


Get = Callable[..., Answer]


def window(number: int) -> tuple[Any, Any]:
    return AT + timedelta(minutes=number), AT + timedelta(minutes=number + 1)


def fill(home: Path) -> None:
    """The app shop: tables of several kinds of keys, and of totals a log with rows of every kind."""
    shop = AppHome(home / "shop")
    tables: Any = {
        **ROWS,
        WINDOWS: [[("eu", *window(n), n) for n in range(5)]],
        TEXTS: [[("a", "history", "1"), ("a/b", "ä%", "2"), ("", "", "3"), ("a", "x", "4")]],
    }
    make_app(shop, tables, keep={"windows": "1 day"})
    log = TableLog(shop.table("totals").log)
    first = [{OP: "upsert", "region": region, "n": n} for region, n in (("eu", 1), ("us", 2))]
    rejected = [
        {"kind": "rejected", "reason": f'amount "{n}" is not a double', "raw": f"{{{n}", "stream": "orders"}
        for n in range(3)
    ]
    publish(log, 0, {"change": first, "rejected": rejected}, schema=CHANGES, at=AT)
    second = [{OP: "upsert", "region": "eu", "n": 3}, {OP: "delete", "region": "us", "n": None}]
    again = {"kind": "duplicate", "step": "distinct id", "raw": "{}"}
    batch = {"change": second, "late": [said("x", START, None)], "duplicate": [again]}
    publish(log, 1, batch, schema=CHANGES, at=AT + timedelta(seconds=1), previous=0)


@contextmanager
def serving(home: Path) -> Iterator[Serving]:
    """A server of a home, up."""
    with open_home(home) as reader:
        found = Serving(reader, listen("127.0.0.1", 0))
        found.start()
        try:
            yield found
        finally:
            found.stop()


def client(server: Serving) -> Get:
    """Sends requests to a server, each on a connection of its own."""
    host = server.url.removeprefix("http://")

    def send(path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(host, timeout=20)
        try:
            content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, content, given)
            found = connection.getresponse()
            lower = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, lower, found.read())
        finally:
            connection.close()

    return send


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the app shop."""
    home = tmp_path_factory.mktemp("served") / "home"
    fill(home)
    return home


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[Serving]:
    """A server of that home, for tests that change nothing."""
    with serving(home) as found:
        yield found


@pytest.fixture(scope="session")
def get(server: Serving) -> Get:
    """Sends a request to it."""
    return client(server)
