"""The home on disk: what files appear whole, which app a name means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyfold.engine.storage import files, home_names
from keyfold.engine.storage import layout as homes
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import HomeUnusable, QueryError


def test_a_home_that_is_a_file_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(HomeUnusable, match="--home DIR"):
        homes.local_app_home(tmp_path / "home", "shop")


def test_a_broken_plan_is_named(tmp_path: Path) -> None:
    home = homes.local_app_home(tmp_path, "shop")
    home.plan.write_text("{")
    with pytest.raises(HomeUnusable, match=r"app\.json"):
        home.read_plan()


def test_a_table_is_found_by_its_full_name_or_alone_where_there_is_one_app(tmp_path: Path) -> None:
    with pytest.raises(QueryError) as none:
        home_names.find(tmp_path, "totals")
    assert none.value.reason == "not_ready"
    homes.local_app_home(tmp_path, "shop").write_plan(StoredApp())
    assert home_names.find(tmp_path, "totals")[1] == "totals"
    assert home_names.find(tmp_path, "shop.totals")[0].path.name == "shop"
    with pytest.raises(QueryError, match="shop"):
        home_names.find(tmp_path, "shap.totals")
    homes.local_app_home(tmp_path, "bank").write_plan(StoredApp())
    with pytest.raises(QueryError, match=r"shop\.totals"):
        home_names.find(tmp_path, "totals")


def test_a_replaced_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        files.replace_file(tmp_path / "f", content)
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize("text", [None, "", "{", "[1]"])
def test_a_status_that_is_missing_or_damaged_is_empty(tmp_path: Path, text: str | None) -> None:
    home = homes.local_app_home(tmp_path, "shop")
    if text is not None:
        home.status.write_text(text)
    assert home.read_status() == {}
    home.write_status({"tables": {}})
    assert home.read_status() == {"tables": {}}


def test_the_last_commit_is_taken_back_and_its_batch_is_begun_but_not_committed(tmp_path: Path) -> None:
    home = homes.TableHome(tmp_path)
    home.spark.uncommit_last()
    for log in ("offsets", "commits"):
        (home.checkpoint / log).mkdir(parents=True)
        for name in ("0", "1", ".1.crc"):
            (home.checkpoint / log / name).touch()
    home.spark.uncommit_last()
    assert (home.planned_batch(), home.committed_batch()) == (1, 0)
    assert not (home.checkpoint / "commits" / ".1.crc").exists()


def test_a_log_of_files_is_whole_back_to_where_it_was_compacted(tmp_path: Path) -> None:
    home = homes.TableHome(tmp_path)
    log = home.checkpoint / "sources" / "0"
    log.mkdir(parents=True)
    (home.checkpoint / "offsets").mkdir()
    (home.checkpoint / "offsets" / "7").write_text('v1\n{}\n{"logOffset":12}\n-\n')
    for name in ("8", "9.compact", "10", "11", "12", "13", ".10.crc", "skipped.json"):
        (log / name).touch()
    assert home.spark.missing_log_entries([0, 1]) == []
    (log / "11").unlink()
    (log / "9.compact").unlink()
    assert [path.name for path in home.spark.missing_log_entries([0, 1])] == [
        "11",
        "9",
        "7",
        "6",
        "5",
        "4",
        "3",
        "2",
        "1",
        "0",
    ]


def test_a_source_of_another_kind_does_not_hide_the_logs_of_files(tmp_path: Path) -> None:
    home = homes.TableHome(tmp_path)
    (home.checkpoint / "offsets").mkdir(parents=True)
    (home.checkpoint / "offsets" / "0").write_text('v1\n{}\n12\n{"logOffset":3}\n-\n')
    assert home.spark.log_offsets(0, [0, 1, 2]) == {0: -1, 1: 3, 2: -1}


def test_a_source_that_is_read_twice_has_one_log(tmp_path: Path) -> None:
    home = homes.TableHome(tmp_path)
    (home.checkpoint / "sources" / "0").mkdir(parents=True)
    (home.checkpoint / "offsets").mkdir()
    (home.checkpoint / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}\n{"logOffset":0}\n')
    (home.checkpoint / "sources" / "0" / "0").touch()
    assert home.spark.missing_log_entries([0, 0]) == []
    assert home.spark.missing_log_entries([0, 1]) == [StoredFile(home.spark.storage, "sources/1/0")]


def test_what_spark_says_of_the_state_is_of_where_the_home_is_now(tmp_path: Path) -> None:
    home = homes.TableHome(tmp_path / "new ü")
    told = home.checkpoint / "state" / "0" / "_metadata" / "v2" / "0"
    told.parent.mkdir(parents=True)
    schema = "state/0/_stateSchema/default/0_state"
    store = {"storeName": "default", "stateSchemaFilePaths": [f"file:/old/state/of/checkpoint/{schema}"]}
    told.write_text("v2\n" + json.dumps({"stateStoreInfo": [store], "operatorPropertiesJson": '{"a":"ä"}'}))
    (told.parent / ".0.crc").touch()
    home.spark.relocate()
    version, text = told.read_text("utf-8").split("\n")
    store["stateSchemaFilePaths"] = [f"file:{home.checkpoint}/{schema}"]
    assert version == "v2"
    assert json.loads(text) == {"stateStoreInfo": [store], "operatorPropertiesJson": '{"a":"ä"}'}
    assert not (told.parent / ".0.crc").exists()
    before = told.stat().st_mtime_ns
    home.spark.relocate()
    assert told.stat().st_mtime_ns == before
