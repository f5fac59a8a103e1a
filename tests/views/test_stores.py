"""Which store a URL opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.errors import BadOption, QueryError
from keyfold.views.none import NoViews
from keyfold.views.sqlite.store import SqliteStore
from keyfold.views.stores import STORES, open_store


@pytest.mark.parametrize("url", ["{path}", "sqlite://{path}", "SQLite://{path}"])
def test_a_path_and_a_sqlite_url_open_a_sqlite_file(url: str, tmp_path: Path) -> None:
    path = tmp_path / "app" / "views.db"
    store = open_store(url.format(path=path), read_only=False)
    assert isinstance(store, SqliteStore)
    assert store.path == path
    assert path.exists()
    store.close()


def test_a_path_object_is_never_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(Path("none"), read_only=False)
    assert isinstance(store, SqliteStore)
    store.close()


@pytest.mark.parametrize("url", ["none", "none://"])
def test_none_opens_no_views(url: str) -> None:
    assert isinstance(open_store(url, read_only=True), NoViews)


def test_a_file_that_does_not_exist_is_not_created_for_reading(tmp_path: Path) -> None:
    store = open_store(f"sqlite://{tmp_path}/views.db", read_only=True)
    with pytest.raises(QueryError, match="there are no views yet"):
        store.tables()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_scheme_names_those_that_exist_and_hides_the_password() -> None:
    with pytest.raises(BadOption) as caught:
        open_store("postgresql://app:hunter2@127.0.0.1/views", read_only=True)
    assert str(caught.value).splitlines() == [
        "unknown scheme 'postgresql' of a view store",
        "  given: postgresql://app:***@127.0.0.1/views",
        "  try: one of: none://, sqlite://; or the path of a SQLite file",
    ]
    assert sorted(STORES) == ["none", "sqlite"]
