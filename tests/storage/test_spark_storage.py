"""Storage through Spark on a local disk, and the errors of Java as those of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.storage.remote import SparkStorage
from tests.storage.contract import StorageContract

pytestmark = pytest.mark.jvm


class TestSparkStorageOnALocalDisk(StorageContract):
    @pytest.fixture
    def storage(self, spark: Any, tmp_path: Path) -> SparkStorage:
        return SparkStorage(session.kernel(spark), spark, f"file://{tmp_path}/root")


def test_nothing_is_left_of_writes_that_lost(spark: Any, tmp_path: Path) -> None:
    storage = SparkStorage(session.kernel(spark), spark, f"file://{tmp_path}")
    storage.put_new("f", b"first")
    storage.put_new("f", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_file_system_that_spark_does_not_know_is_an_error_with_its_name(spark: Any) -> None:
    with pytest.raises(OSError, match="nosuch"):
        SparkStorage(session.kernel(spark), spark, "nosuch://host/path")


def test_what_java_refuses_is_an_error_with_the_files_name(spark: Any, tmp_path: Path) -> None:
    storage = SparkStorage(session.kernel(spark), spark, f"file://{tmp_path}")
    storage.put("f", b"x")
    with pytest.raises(OSError, match="f/below") as refused:
        storage.put("f/below", b"x")
    assert refused.value.filename == f"file://{tmp_path}/f/below"
