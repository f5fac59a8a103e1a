"""Local files outside the home: views come back when they are lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeLocked
from keyfold.testing import drive

pytestmark = pytest.mark.jvm


def counting() -> kf.App:
    app = kf.App("shop")
    app.stream("orders", kf.files("orders"), schema="region string").by("region").table("t", n="count(*)")
    return app


def test_a_lost_directory_of_local_files_costs_nothing(tmp_path: Path) -> None:
    home, local = tmp_path / "home", tmp_path / "local"
    app_home = AppHome(home / "shop")
    with drive(counting(), home=home, local=local) as first:
        first.push("orders", [{"region": "eu"}])
        assert first.rows("t") == [{"region": "eu", "n": 1}]
        assert str(app_home.views) == str(local / "shop" / "views.db")
        assert app_home.views.exists()
        with pytest.raises(HomeLocked), drive(counting(), home=home):
            pass
        assert str(app_home.views) == str(local / "shop" / "views.db"), (
            "a start that was refused has changed nothing"
        )
    assert not list((home / "shop").glob("views.db*"))
    shutil.rmtree(local)
    with drive(counting(), home=home, local=local) as second:
        assert second.rows("t") == [{"region": "eu", "n": 1}]
        second.push("orders", [{"region": "eu"}])
        assert second.rows("t") == [{"region": "eu", "n": 2}]
    with drive(counting(), home=home) as third:
        assert third.rows("t") == [{"region": "eu", "n": 2}]
        assert str(app_home.views) == str(home / "shop" / "views.db")
