"""Where views, status and logs are, if not in the home."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from keyfold.engine.session_settings import log_settings
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.errors import HomeUnusable
from keyfold.settings import load


def test_the_local_files_are_in_the_home_by_default(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    home.use_local(None)
    assert str(home.views) == str(tmp_path / "shop" / "views.db")
    home.use_local(tmp_path)
    assert home.status == tmp_path / "shop" / "status.json"
    assert not (tmp_path / "shop" / "local.json").exists()


def test_another_directory_is_found_by_whoever_knows_the_home(tmp_path: Path) -> None:
    home = local_app_home(tmp_path / "home", "shop")
    home.use_local(tmp_path / "local")
    home.write_status({"tables": {}})
    found = AppHome(tmp_path / "home" / "shop")
    assert str(found.views) == str(tmp_path / "local" / "shop" / "views.db")
    assert found.read_status() == {"tables": {}}
    assert (tmp_path / "local" / "shop" / "status.json").exists()
    assert stat.S_IMODE((tmp_path / "local" / "shop").stat().st_mode) == 0o700
    assert found.table("t").path == tmp_path / "home" / "shop" / "tables" / "t"
    found.use_local(None)
    assert str(found.views) == str(tmp_path / "home" / "shop" / "views.db")


def test_two_homes_do_not_share_a_directory_of_local_files(tmp_path: Path) -> None:
    first, second = (local_app_home(tmp_path / name, "shop") for name in ("one", "two"))
    first.use_local(tmp_path / "local")
    with pytest.raises(HomeUnusable, match=r"(?s)belongs to an app in another home.*one/shop.*KEYFOLD_LOCAL"):
        second.use_local(tmp_path / "local")
    assert str(second.views) == str(tmp_path / "two" / "shop" / "views.db")
    first.use_local(tmp_path / "local")
    local_app_home(tmp_path / "two", "bank").use_local(tmp_path / "local")


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable, match=r"(?s)local files can't be written.*KEYFOLD_LOCAL"):
        local_app_home(tmp_path / "home", "shop").use_local(tmp_path / "file")


def test_a_record_that_makes_no_sense_means_the_home(tmp_path: Path) -> None:
    home = local_app_home(tmp_path, "shop")
    (tmp_path / "shop" / "local.json").write_text("[")
    assert str(home.views) == str(tmp_path / "shop" / "views.db")


def test_logs_are_local_files(tmp_path: Path) -> None:
    found = log_settings(load(home=tmp_path / "home", local=tmp_path / "local"))
    assert found.parent == tmp_path / "local"
    assert not (tmp_path / "home").exists()
