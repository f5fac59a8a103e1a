"""The version of PySpark where Spark itself puts it onto the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark


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
