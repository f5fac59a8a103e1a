"""In which store an app's views are: recorded in its home, so that every command finds them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.recovery.view_moving import use_views
from keyfold.engine.storage.layout import AppHome, local_app_home, remote_app_home
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import BadOption
from keyfold.settings import load
from keyfold.views import stores
from keyfold.views.contract import Column, Location, ViewSchema
from keyfold.views.postgresql import address as addresses
from keyfold.views.types.parse import parse
from tests.postgres import SECURED, Server
from tests.views.memory_store import MemoryViews

SCHEMA = ViewSchema("t", (Column("k", parse("string")),), (Column("n", parse("long")),))


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stores.STORES, "memory", MemoryViews)


def test_the_views_are_local_files_by_default(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.record_views(stores.LOCAL)
    assert str(home.views) == str(tmp_path / "shop" / "views.db")
    assert not home.views_elsewhere
    assert {path.name for path in home.path.iterdir()} == {"tables"}


def test_another_store_is_found_by_whoever_knows_the_home(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.record_views("memory://one")
    found = AppHome(tmp_path / "shop")
    path = tmp_path / "shop"
    assert found.views == MemoryViews(Location("memory://one", "shop", LocalStorage(path).uri(), path))
    assert found.views_elsewhere, "a copy of the home does not have the views"
    found.record_views(stores.LOCAL)
    assert str(home.views) == str(tmp_path / "shop" / "views.db")


def test_the_local_files_of_a_home_elsewhere_tell_it_too(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "remote" / "shop")
    home = remote_app_home(storage, tmp_path / "local", "shop")
    home.use_local(None)
    home.record_views("memory://one")
    wanted = MemoryViews(Location("memory://one", "shop", storage.uri(), tmp_path / "local" / "shop"))
    assert home.views == wanted
    assert AppHome(tmp_path / "local" / "shop").views == wanted
    home.record_views(stores.LOCAL)
    for one in (home, AppHome(tmp_path / "local" / "shop")):
        assert str(one.views) == str(tmp_path / "local" / "shop" / "views.db")


def test_a_record_that_makes_no_sense_means_local_files(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    (home.path / "views.json").write_text("[")
    assert str(home.views) == str(tmp_path / "shop" / "views.db")


def test_a_store_that_this_version_lacks_is_named(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.record_views("duckdb://x")
    with pytest.raises(BadOption, match="unknown view store 'duckdb'"):
        assert home.views


def test_views_move_with_all_rows_when_the_settings_name_another_store(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    use_views(home, stores.LOCAL)
    with home.views.open(read_only=False) as store:
        store.create(SCHEMA)
        for batch in range(3):
            with store.batch("t", batch, datetime(2026, 1, 1, batch, tzinfo=UTC)) as writer:
                writer.apply(pa.RecordBatch.from_pylist([{"_op": "upsert", "k": f"k{batch}", "n": 1}]))
        before = store.position("t"), list(store.scan("t"))
    use_views(home, "memory://one")
    assert not list(home.path.glob("views.db*"))
    for address in ("memory://two", stores.LOCAL):
        with home.views.open(read_only=True) as store:
            assert (store.position("t"), list(store.scan("t"))) == before
        old = home.views
        use_views(home, address)
        assert not old.exists()
    assert str(home.views) == str(tmp_path / "shop" / "views.db")


def test_a_crash_before_the_new_store_is_recorded_loses_nothing(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    with home.views_at("memory://one").open(read_only=False) as store:
        store.create(SCHEMA)
    use_views(home, "memory://one")
    assert home.views.exists()
    with home.views.open(read_only=True) as store:
        assert store.tables() == ("t",)


def test_views_that_cannot_be_read_stay_and_the_app_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = local_app_home(tmp_path, "shop")
    (home.path / "views.db").write_bytes(b"not a database at all" * 100)
    use_views(home, "memory://one")
    assert home.views_address == "memory://one"
    assert "can't be moved" in caplog.text
    assert (home.path / "views.db").exists()


def test_a_password_is_not_in_the_home_and_the_views_are_found_without_the_setting(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = postgres.address(SECURED)
    monkeypatch.setattr(addresses, "_known", {})
    home = local_app_home(tmp_path, "shop")
    with home.views.open(read_only=False) as store:
        store.create(SCHEMA)
        with store.batch("t", 0, datetime(2026, 1, 1, tzinfo=UTC)) as writer:
            writer.apply(pa.RecordBatch.from_pylist([{"_op": "upsert", "k": "a", "n": 1}]))
    use_views(home, stores.address_of(load(views=plain.replace(SECURED, f"{SECURED}:s3%20cret")).views))
    assert home.views_address == plain
    assert not (home.path / "views.db").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"cret" in path.read_bytes()]
    with AppHome(home.path).views.open(read_only=True) as store:
        assert [row["k"] for row in store.scan("t")] == ["a"]
    monkeypatch.setattr(addresses, "_known", {})
    monkeypatch.setenv("KEYFOLD_VIEWS", plain.replace(SECURED, f"{SECURED}:s3%20cret"))
    assert home.views.exists()
    home.views.remove()
