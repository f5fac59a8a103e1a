"""PySpark as Spark itself puts it onto the path: in a zip, without jars."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from keyfold.errors import KernelBuildFailed
from keyfold.kernel.build import kernel_jar


def test_the_version_is_read_from_a_zip_behind_a_link(tmp_path: Path) -> None:
    # As in a container of YARN.
    link = tmp_path / "pyspark.zip"
    link.symlink_to(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")
    code = (
        "import pyspark; from keyfold.kernel.build import spark_version; "
        "print(pyspark.__file__, spark_version())"
    )
    environment = {**os.environ, "PYTHONPATH": str(link)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"{link}/pyspark/__init__.py", pyspark.__version__]


def test_without_jars_of_spark_the_kernel_is_not_compiled_and_what_to_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KernelBuildFailed, match="no jars of Spark") as caught:
        kernel_jar(tmp_path / "cache")
    assert "wheel" in (caught.value.hint or "")
