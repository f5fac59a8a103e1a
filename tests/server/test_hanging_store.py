"""One app whose database does not answer: the other apps of the home are served as ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.engine.storage import views_address
from keyfold.engine.storage.layout import AppHome
from keyfold.read import open_home
from tests.cli.conftest import ROWS, make_app
from tests.server.conftest import Answer, Get, client, serving

SLOW = "/api/apps/slow/tables/totals/rows"


class Silent:
    """A database that takes connections and says nothing on them until it is told to hang up."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.connected = threading.Semaphore(0)
        self.count = 0
        self.hangs_up = False
        self._taken: list[socket.socket] = []
        self.ended = False
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    def _take(self) -> None:
        while True:
            taken, _ = self.listening.accept()
            if self.ended:
                taken.close()
                return
            self._taken.append(taken)
            self.count += 1
            if self.hangs_up:
                taken.close()
            self.connected.release()

    def end(self) -> None:
        """Hangs up, and takes no more connections."""
        self.ended = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self.listening.close()
        for taken in self._taken:
            taken.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    found = Silent()
    yield found
    if not found.ended:
        found.end()


@pytest.fixture
def home(tmp_path: Path, silent: Silent) -> Path:
    """The apps shop, with local views, and slow, whose views are in that database."""
    for name in ("shop", "slow"):
        make_app(AppHome(tmp_path / name), ROWS)
    address = f"postgresql://127.0.0.1:{silent.port}/x"
    views_address.record(AppHome(tmp_path / "slow").storage, address)
    return tmp_path


@pytest.fixture
def get(home: Path) -> Iterator[Get]:
    with serving(home) as server:
        yield client(server)


def test_other_apps_are_read_while_one_waits_for_its_database(get: Get, silent: Silent) -> None:
    answers: list[Answer] = []
    slow = threading.Thread(target=lambda: answers.append(get(SLOW)))
    slow.start()
    assert silent.connected.acquire(timeout=20)
    for path in (
        "/api/apps/shop/tables/totals/rows",
        "/api/apps/shop",
        "/api/apps/shop/tables/totals/keys/eu",
    ):
        assert get(path).status == 200
    assert (silent.count, answers) == (1, [])
    silent.end()
    slow.join()
    assert answers[0].error["reason"] == "not_ready"


def test_readers_of_an_app_that_hangs_leave_threads_for_others(get: Get, silent: Silent) -> None:
    """More of them than there are threads."""
    statuses: list[int] = []
    slow = [threading.Thread(target=lambda: statuses.append(get(SLOW).status)) for _ in range(60)]
    for thread in slow:
        thread.start()
    for _ in range(10):
        assert silent.connected.acquire(timeout=20)
    assert get("/api/apps/shop/tables/totals/rows").status == 200
    assert (silent.count, statuses) == (10, [])
    silent.end()
    for thread in slow:
        thread.join()
    assert statuses == [503] * 60


def test_a_status_asks_a_database_that_does_not_answer_once(home: Path, silent: Silent) -> None:
    silent.hangs_up = True
    with open_home(home) as reader:
        status = reader.app("slow").status()
    assert (len(status.tables), silent.count) == (len(ROWS), 1)
    assert {table.keys for table in status.tables.values()} == {None}
    assert "cannot read the view: connection" in (status.problem or "")


def test_the_list_of_apps_says_what_is_wrong_with_one(get: Get, silent: Silent) -> None:
    silent.hangs_up = True
    shop, slow = get("/api/apps").json["apps"]
    assert (shop["problem"], slow["state"]) == (None, "stopped")
    assert "cannot read the view: connection" in slow["problem"]
