"""`/api/apps/{app}/tables/{table}/state`: sizes of partitions on disk, and what savepoints have."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from keyfold.engine.savepoint.manifest import SavedFile, SavedTable, Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.contract import FileFacts
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.read import open_home
from tests.cli.conftest import AT
from tests.server.conftest import client, fill, serving


@pytest.fixture
def shop(tmp_path: Path) -> AppHome:
    fill(tmp_path)
    return AppHome(tmp_path / "shop")


def saved(place: AppHome, name: str, days: int, checksum: str | None, rows: int = 4) -> None:
    state = None if checksum is None else (FamilyDigest(0, "default", rows, checksum),)
    files = (SavedFile("tables/totals/log/0.json", 70, "ab"), SavedFile("tables/pairs/log/0.json", 9, "cd"))
    tables = {"totals": SavedTable(days, None, (), 2, state)}
    at = AT + timedelta(days=days)
    Savepoints(place).add(
        Savepoint(name, "shop", at, "ada", None, False, "4.3.0", 1, tables, files, None, True)
    )


def test_partitions_have_the_size_of_their_files(shop: AppHome) -> None:
    checkpoint = shop.table("totals").storage.below("checkpoint")
    for name, size in (
        ("0/0/1_a.zip", 600),
        ("0/0/SSTs/1.sst", 200),
        ("0/1/1_a.changelog", 100),
        ("1/1/1_b.zip", 100),
        ("0/10/1_a.zip", 200),
        ("0/_metadata/v2/0", 5_000),
        ("0/_stateSchema/default/0_x", 5_000),
    ):
        checkpoint.put(f"state/{name}", b"x" * size)
    with serving(shop.path.parent) as server:
        found = client(server)("/api/tables/totals/state").json
    state = found["state"]
    assert [(one["partition"], one["files"], one["bytes"]) for one in state["partitions"]] == [
        (0, 2, 800),
        (1, 2, 200),
        (10, 1, 200),
    ]
    assert (state["bytes"], state["skew"], state["savepoints"]) == (1200, 2.0, [])
    assert found["batch"] is not None


def test_savepoints_with_the_same_state_are_named(shop: AppHome) -> None:
    for name, days, checksum in (("one", 1, "a"), ("two", 2, "b"), ("three", 3, "a"), ("four", 4, None)):
        saved(shop, name, days, checksum)
    with serving(shop.path.parent) as server:
        get = client(server)
        found = get("/api/tables/totals/state").json["state"]["savepoints"]
        assert [(one["savepoint"], one["batch"], one["rows"], one["same_as"]) for one in found] == [
            ("one", 1, 4, None),
            ("two", 2, 4, None),
            ("three", 3, 4, "one"),
            ("four", 4, None, None),
        ]
        assert {one["bytes"] for one in found} == {70}
        # A savepoint of other tables is none of this one.
        assert get("/api/tables/pairs/state").json["state"]["savepoints"] == []


def test_a_table_without_state_has_no_partitions(shop: AppHome) -> None:
    with serving(shop.path.parent) as server:
        found = client(server)("/api/tables/totals/state").json["state"]
    assert (found["partitions"], found["bytes"], found["skew"]) == ([], 0, None)


def test_files_that_vanish_while_they_are_listed_are_listed_again(
    shop: AppHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.table("totals").storage.put("checkpoint/state/0/0/1_a.zip", b"x")
    listed, failures = LocalStorage.files, iter([True, True, False])

    def files(self: LocalStorage, name: str = "") -> tuple[FileFacts, ...]:
        if name == "state" and next(failures):
            raise FileNotFoundError(name)
        return listed(self, name)

    monkeypatch.setattr(LocalStorage, "files", files)
    assert open_home(shop.path.parent).app("shop").state_sizes("totals").bytes == 1
