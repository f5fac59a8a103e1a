"""In which store an app's views are: recorded in its home, so that every command finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.engine.storage.layout import AppHome, local_app_home, remote_app_home
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import BadOption
from keyfold.views import stores
from keyfold.views.contract import Location
from tests.views.memory_store import MemoryViews


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stores.STORES, "memory", MemoryViews)


def test_the_views_are_local_files_by_default(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.use_views(stores.LOCAL)
    assert str(home.views) == str(tmp_path / "shop" / "views.db")
    assert not home.views_elsewhere
    assert {path.name for path in home.path.iterdir()} == {"tables"}


def test_another_store_is_found_by_whoever_knows_the_home(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.use_views("memory://one")
    found = AppHome(tmp_path / "shop")
    path = tmp_path / "shop"
    assert found.views == MemoryViews(Location("memory://one", "shop", LocalStorage(path).uri(), path))
    assert found.views_elsewhere, "a copy of the home does not have the views"
    found.use_views(stores.LOCAL)
    assert str(home.views) == str(tmp_path / "shop" / "views.db")


def test_the_local_files_of_a_home_elsewhere_tell_it_too(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "remote" / "shop")
    home = remote_app_home(storage, tmp_path / "local", "shop")
    home.use_local(None)
    home.use_views("memory://one")
    wanted = MemoryViews(Location("memory://one", "shop", storage.uri(), tmp_path / "local" / "shop"))
    assert home.views == wanted
    assert AppHome(tmp_path / "local" / "shop").views == wanted
    home.use_views(stores.LOCAL)
    for one in (home, AppHome(tmp_path / "local" / "shop")):
        assert str(one.views) == str(tmp_path / "local" / "shop" / "views.db")


def test_a_record_that_makes_no_sense_means_local_files(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    (home.path / "views.json").write_text("[")
    assert str(home.views) == str(tmp_path / "shop" / "views.db")


def test_a_store_that_this_version_lacks_is_named(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.use_views("duckdb://x")
    with pytest.raises(BadOption, match="unknown view store 'duckdb'"):
        assert home.views
