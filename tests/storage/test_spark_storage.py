"""The errors of Java as those of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.storage.remote import SparkStorage

pytestmark = pytest.mark.jvm


def test_a_file_system_that_spark_does_not_know_is_an_error_with_its_name(spark: Any) -> None:
    with pytest.raises(OSError, match="nosuch"):
        SparkStorage(session.kernel(spark), spark, "nosuch://host/path")


def test_what_java_refuses_is_an_error_with_the_files_name(spark: Any, tmp_path: Path) -> None:
    storage = SparkStorage(session.kernel(spark), spark, f"file://{tmp_path}")
    storage.put("f", b"x")
    with pytest.raises(OSError, match="f/below") as refused:
        storage.put("f/below", b"x")
    assert refused.value.filename == f"file://{tmp_path}/f/below"
