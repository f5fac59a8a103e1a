"""`open_home`: what a process without Spark can read of a home."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.engine.internal_columns import OP
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.savepoint.manifest import SavedFile, SavedTable, Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.local_directory import OWNER
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.errors import BadOption, HomeUnusable, QueryError
from keyfold.read import AppReader, HomeReader, open_home
from keyfold.read.history import Change, Since
from keyfold.read.names import Names
from keyfold.read.positions import Follower
from tests.cli.conftest import AT, ROWS, TOTALS, make_app
from tests.late_rows import START, said
from tests.log_files import publish

CHANGES = pa.schema([(OP, pa.string()), ("region", pa.string()), ("n", pa.int64())])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The app shop: a table with a view of two batches, and a log with rows of every kind."""
    make_app(AppHome(tmp_path / "shop"), {TOTALS: ROWS[TOTALS]})
    log = TableLog(AppHome(tmp_path / "shop").table("totals").log)
    first = [{OP: "upsert", "region": region, "n": n} for region, n in (("eu", 1), ("us", 2))]
    row = {"kind": "rejected", "reason": "key region is null", "raw": "{}", "stream": "orders"}
    publish(log, 0, {"change": first, "rejected": [row, row]}, schema=CHANGES, at=AT)
    again = {"kind": "duplicate", "step": "distinct id", "raw": "{}"}
    deleted: dict[str, Any] = {OP: "delete", "region": "eu", "n": None}
    batch = {"change": [deleted], "late": [said("x", START, None)], "duplicate": [again]}
    publish(log, 1, batch, schema=CHANGES, at=AT + timedelta(seconds=1), previous=0)
    return tmp_path


@pytest.fixture
def shop(home: Path) -> AppReader:
    return open_home(home).app("shop")


def test_an_app_is_found_by_its_name_and_by_that_of_a_table(home: Path) -> None:
    with open_home(home) as reader:
        assert reader.names() == ["shop"]
        assert [app.name for app in reader.apps()] == ["shop"]
        app, part = reader.find("totals")
        assert (app.name, part) == ("shop", "totals")
        assert reader.find("shop.totals")[0] is app is reader.app("shop")
        assert reader.table("totals").get("eu") == app.table("totals").get(region="eu")
        for read in (lambda: reader.app("shap"), lambda: reader.find("shap.totals")):
            with pytest.raises(QueryError, match="did you mean 'shop'"):
                read()


def test_a_home_where_nothing_ran(tmp_path: Path) -> None:
    reader = open_home(tmp_path / "none")
    assert reader.names() == []
    for read in (reader.apps, lambda: reader.find("totals"), lambda: reader.whole_app(None)):
        with pytest.raises(QueryError) as caught:
            read()
        assert caught.value.reason == "not_ready"
    assert not (tmp_path / "none").exists()


def test_an_app_with_savepoints_alone_is_a_whole_app(home: Path) -> None:
    (home / "old" / "savepoints").mkdir(parents=True)
    reader = open_home(home)
    assert reader.whole_app("old").name == "old"
    with pytest.raises(BadOption, match="the home has several apps"):
        reader.whole_app(None)
    assert reader.names() == ["shop"]


def test_an_app_of_which_files_are_left_is_found_if_they_will_do(home: Path) -> None:
    (home / "lost" / "tables" / "t").mkdir(parents=True)
    reader = open_home(home)
    with pytest.raises(QueryError, match="no app lost"):
        reader.find("lost.t")
    assert reader.find("lost.t", any_files=True)[0].with_files("T") == "t"


def test_a_home_elsewhere_is_read_through_its_storage(home: Path, tmp_path: Path) -> None:
    local = tmp_path / "local"
    reader = HomeReader(local, LocalStorage(home))
    app, part = reader.find("totals")
    assert len(app.rejected(part)) == 2
    assert reader.whole_app(None).home.path == local / "shop"
    with pytest.raises(QueryError, match="no views yet"):
        app.table(part).rows()


def test_local_files_of_a_home_elsewhere_are_views_and_status_alone(home: Path) -> None:
    (home / "shop" / OWNER).write_text('{"home": "s3a://bucket/home/shop"}')
    shop = open_home(home).app("shop")
    assert shop.table("totals").position() is not None
    assert shop.status().state == "stopped"
    with pytest.raises(HomeUnusable, match="its logs and state are in its home"):
        shop.rejected("totals")


def test_rejected_rows_are_values(shop: AppReader) -> None:
    row, _ = rows = shop.rejected("TOTALS")
    assert (row.batch, row.at, row.reason, row.raw) == (0, AT, "key region is null", "{}")
    assert row.document() == {
        "batch": 0, "at": AT, "reason": "key region is null", "raw": "{}", "stream": "orders"
    }  # fmt: skip
    assert shop.rejected("Orders") == rows
    assert shop.rejections("orders").rows == rows
    assert shop.rejected("unread") == []
    with pytest.raises(QueryError, match="no stream or table order in app shop") as caught:
        shop.rejected("order")
    assert "did you mean 'orders'" in str(caught.value)


def test_late_and_duplicate_rows_are_values(shop: AppReader) -> None:
    assert [(row.batch, row.raw) for row in shop.late("totals")] == [(1, "x")]
    (batch,) = shop.late_batches("totals")
    assert batch.document() == {"batch": 1, "rows": 1, "late_by": None, "replayed": "no", "sent": 0}
    assert [(row.batch, row.step) for row in shop.duplicates("totals")] == [(1, "distinct id")]
    with pytest.raises(QueryError, match="no table orders in app shop"):
        shop.duplicates("orders")


def test_the_history_of_a_key_is_its_changes(shop: AppReader) -> None:
    assert list(shop.history("totals", ["eu"])) == [
        Change(0, AT, "upsert", {"region": "eu", "n": 1}),
        Change(1, AT + timedelta(seconds=1), "delete", {"region": "eu"}),
    ]
    assert shop.history_reaches("totals") == Since(0, AT, whole=True)
    with pytest.raises(QueryError, match="no table total in app shop"):
        shop.history("total", ["eu"])
    with pytest.raises(QueryError, match="stream orders has no log of its own"):
        shop.history("orders", ["eu"])


def test_the_batches_of_a_log_are_counted_from_their_manifests(shop: AppReader) -> None:
    found = shop.batches("totals", newest=1)
    assert (found.total, found.removed_upto, [one.batch for one in found.batches]) == (2, -1, [1])
    (batch,) = found.document()["batches"]
    assert {name: batch[name] for name in ("first", "batch", "change", "late", "rejected", "duplicate")} == {
        "first": 1, "batch": 1, "change": 1, "late": 1, "rejected": 0, "duplicate": 1
    }  # fmt: skip
    assert (batch["files"], batch["size"] > 0) == (3, True)


def test_the_progress_of_a_table_is_that_of_its_followers(home: Path, shop: AppReader) -> None:
    totals = AppHome(home / "shop").table("totals")
    totals.sink("to_kafka").put(b'{"batch": 0}')
    totals.sink("gone").put(b'{"batch": 0}')
    plan = shop.home.read_plan()
    declared = {**plan.declared_tables["totals"], "sinks": [{"name": "to_kafka", "kind": "kafka"}]}
    shop.home.write_plan(plan.with_declared({"totals": declared}))
    found = shop.progress("totals")
    assert found.followers == (Follower("sink", "to_kafka", 0), Follower("view", "totals", 1))
    assert [str(one) for one in found.followers] == ["sink to_kafka", "the view"]
    assert found.document()["batch"] == 1


def test_columns_that_a_migration_added_are_known_since_then(shop: AppReader) -> None:
    plan = shop.home.read_plan()
    entry = replace(plan.table("totals"), since={"revenue": KnownSince(AT, 7)}, initial={"rows": 3})
    shop.home.write_plan(plan.with_tables({"totals": entry}))
    assert {name: one.batch for name, one in shop.known_since("totals").items()} == {"revenue": 7}
    status = shop.status().tables["totals"]
    assert (status.since, status.initial) == ({"revenue": {"at": AT.isoformat(), "batch": 7}}, {"rows": 3})


def test_savepoints_are_listed_from_the_oldest_on(shop: AppReader) -> None:
    saved = SavedFile("tables/totals/log/0.json", 10, "ab")
    totals = SavedTable(1, None, (), 4, (FamilyDigest(0, "default", 3, "12"),))
    for name, at in (("b", AT), ("a", AT + timedelta(days=1))):
        made = Savepoint(
            name, "shop", at, "ada", None, False, "4.3.0", 1, {"totals": totals}, (saved,), None, True
        )
        assert Savepoints(shop.home).add(made)
    assert [one.name for one in shop.savepoints()] == ["b", "a"]
    found = shop.savepoint("b")
    assert found.of_table("totals") == [saved]
    state = {"operator": 0, "family": "default", "rows": 3, "checksum": "12"}
    table = {"batch": 1, "watermark": None, "partitions": 4, "state": [state]}
    assert found.document() == {
        "name": "b", "app": "shop", "at": AT, "user": "ada", "why": None, "live": False, "whole": True,
        "spark": "4.3.0", "files": 1, "bytes": 10, "tables": {"totals": table},
    }  # fmt: skip
    with pytest.raises(QueryError, match="no savepoint c of app shop"):
        shop.savepoint("c")


def test_a_running_app_has_names_of_its_own(home: Path) -> None:
    running = AppReader(AppHome(home / "shop"), Names("shop", {"totals": ["visits"]}, ["visits"]))
    assert running.rejected("visits") == []
    with pytest.raises(QueryError, match="no stream or table orders"):
        running.rejected("orders")


def test_reading_loads_no_spark(home: Path) -> None:
    script = f"""
import importlib, json, pkgutil, sys
import keyfold.read
for module in pkgutil.iter_modules(keyfold.read.__path__):
    importlib.import_module("keyfold.read." + module.name)
heavy = ("pyspark", "py4j", "pandas", "numpy", "pyarrow", "typer")
imported = [name for name in heavy if name in sys.modules]
with keyfold.read.open_home({str(home)!r}) as reader:
    app, table = reader.find("totals")
    app.table(table).page(), app.status().document(), app.progress(table), app.batches(table)
    app.rejections(table), list(app.late(table)), list(app.history(table, ["eu"]))
print(json.dumps([imported, [name for name in ("pyspark", "py4j", "typer") if name in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []]


def test_times_are_in_utc(shop: AppReader) -> None:
    assert shop.rejected("totals")[0].at == datetime(2026, 1, 1, 12, tzinfo=UTC)
