"""Which store an address names."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.errors import BadOption, QueryError
from keyfold.settings import load
from keyfold.views.contract import Location
from keyfold.views.sqlite.store import SqliteStore
from keyfold.views.stores import LOCAL, STORES, address_of, views_at, views_in


def at(address: str, local: Path) -> Location:
    return Location(address, "shop", local.as_uri(), local)


def test_the_local_store_is_a_sqlite_file_beside_the_other_local_files(tmp_path: Path) -> None:
    views = views_at(at(LOCAL, tmp_path / "shop"))
    assert str(views) == str(tmp_path / "shop" / "views.db")
    assert (views.name, views.is_in(tmp_path / "shop")) == ("views.db", True)
    with views.open(read_only=False) as store:
        assert isinstance(store, SqliteStore)
        assert store.path == tmp_path / "shop" / "views.db"
    assert store.path.exists()


def test_the_path_of_a_copy_is_never_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with views_in(Path("none")).open(read_only=False) as store:
        assert isinstance(store, SqliteStore)


def test_a_file_that_does_not_exist_is_not_created_for_reading(tmp_path: Path) -> None:
    with (
        views_at(at(LOCAL, tmp_path)).open(read_only=True) as store,
        pytest.raises(QueryError, match="there are no views yet"),
    ):
        store.tables()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_store_names_those_that_exist_and_hides_the_password(tmp_path: Path) -> None:
    with pytest.raises(BadOption) as caught:
        views_at(at("duckdb://app:hunter2@127.0.0.1/views", tmp_path))
    assert str(caught.value).splitlines() == [
        "unknown view store 'duckdb'",
        "  given: duckdb://app:***@127.0.0.1/views",
        "  try: one of: postgresql, sqlite",
    ]


@pytest.mark.parametrize("name", STORES)
def test_every_store_can_be_set(name: str, tmp_path: Path) -> None:
    setting = load(views=name if name == LOCAL else f"{name}://user@host/database").views
    assert views_at(at(address_of(setting), tmp_path)).exists
