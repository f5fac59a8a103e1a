"""Sessions of keyfold's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def test_hadoops_settings_have_their_values_and_no_origins() -> None:
    settings = shared_session()._jsc.hadoopConfiguration()
    assert settings.get("fs.defaultFS") == "file:///"
    assert settings.getPropertySources("fs.defaultFS") is None
    copied = shared_session()._jsparkSession.sessionState().newHadoopConf()
    assert copied.getPropertySources("io.file.buffer.size") is None


SESSIONS = """
import json, os, sys
from keyfold.engine.session import own_session
from keyfold.settings import load

found = []
for python in ("/opt/other/bin/python", None):
    named = {"spark.pyspark.python": python} if python else {}
    spark = own_session(load(home=sys.argv[1], master="local[1]", spark=named))
    found.append([spark.sparkContext.pythonExec, os.environ.get("PYSPARK_PYTHON")])
    spark.stop()
print(json.dumps(found))
"""


@pytest.mark.parametrize("variable", [None, "/opt/mine/bin/python"])
def test_the_python_of_a_session_s_workers_is_not_left_in_the_environment(
    variable: str | None, tmp_path: Path
) -> None:
    known = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    known |= {"PYSPARK_PYTHON": variable} if variable else {}
    ended = subprocess.run(
        [sys.executable, "-c", SESSIONS, tmp_path], env=known, capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout) == [
        ["/opt/other/bin/python", variable],
        [variable or sys.executable, variable],
    ]
