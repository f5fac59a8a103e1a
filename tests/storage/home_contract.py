"""What an app does in a home that is not on a local disk; a storage's test class inherits it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli import app_status
from keyfold.engine import session
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from keyfold.errors import HomeLocked, HomeUnusable


def write(inbox: Path, number: int) -> None:
    inbox.mkdir(exist_ok=True)
    rows = [{"region": region} for region in ("eu", "us", "eu", None)]
    (inbox / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(inbox / f"{number}.json", (1_000_000 + number, 1_000_000 + number))


def shop(inbox: Path) -> kf.App:
    app = kf.App("shop")
    orders = app.stream("orders", kf.files(inbox, maxFilesPerTrigger=1), schema="region string")
    orders.by("region").table("sums", n="count(*)")
    return app


def counts(handle: Any) -> dict[str, int]:
    return {row["region"]: row["n"] for row in handle.table("sums").rows()}


class HomeContract:
    """The tests; `root` is the URI of an empty directory."""

    @pytest.fixture
    def root(self) -> str:
        raise NotImplementedError

    def test_an_app_runs_stops_and_goes_on_elsewhere(self, spark: Any, root: str, tmp_path: Path) -> None:
        inbox = tmp_path / "in"
        write(inbox, 0)
        write(inbox, 1)
        with shop(inbox).start(spark=spark, home=root, local=tmp_path / "one") as handle:
            handle.drain()
            assert counts(handle) == {"eu": 4, "us": 2}
            assert len(handle.rejected("sums")) == 2
            with pytest.raises(HomeLocked, match="this process already runs shop"):
                shop(inbox).start(spark=spark, home=root, local=tmp_path / "one")
            place = AppHome(tmp_path / "one" / "shop")
            assert app_status.status(place)["pid"] == os.getpid()
            with pytest.raises(HomeUnusable, match="these are the local files of shop"):
                place.table("sums")
        storage = SparkStorage(session.kernel(spark), spark, f"{root}/shop")
        assert storage.list() == ["app.json", "lease", "tables"]
        assert set(storage.list("tables/sums/log")) == {"0.json", "1.json", "data"}
        assert not (tmp_path / "one" / "shop" / "tables" / "sums").exists()

        write(inbox, 2)
        with shop(inbox).start(spark=spark, home=root, local=tmp_path / "two") as handle:
            handle.drain()
            assert counts(handle) == {"eu": 6, "us": 3}
        assert json.loads(storage.read("tables/sums/log/2.json"))["epoch"] == 2

    def test_an_app_that_needs_local_files_is_refused(self, root: str, tmp_path: Path) -> None:
        app = kf.App("shop")
        rows = app.stream("rows", kf.rows([{"k": 1}]), schema="k int")
        rows.by("k").table("t", n="count(*)")
        with pytest.raises(kf.BadOption, match=r"can't run in this home yet: stream rows is kf\.rows"):
            app.start(home=root, local=tmp_path)
