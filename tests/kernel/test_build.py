"""The kernel's jar: built once, by whoever comes first, wherever it can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from keyfold.errors import JavaMissing, KernelBuildFailed
from keyfold.kernel import build

pytestmark = pytest.mark.jvm
BUILD = """
import sys
from pathlib import Path
from keyfold.kernel.build import kernel_jar
print(kernel_jar(Path(sys.argv[1])))
"""


def test_two_processes_may_build_at_once(tmp_path: Path) -> None:
    both = [
        subprocess.Popen([sys.executable, "-c", BUILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=280)[0].strip() for process in both]
    assert said[0] == said[1] == str(tmp_path / build.jar_name())
    with zipfile.ZipFile(said[0]) as jar:
        assert "org/apache/spark/sql/keyfold/api/KernelApi.class" in jar.namelist()
        assert jar.testzip() is None
    assert [p.name for p in tmp_path.iterdir()] == [build.jar_name()]


def test_a_cache_that_cannot_be_written_gives_way_to_a_temporary_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert build.writable([tmp_path / "file" / "below", tmp_path / "other"]) == tmp_path / "other"
    with pytest.raises(KernelBuildFailed, match="KEYFOLD_KERNEL_DIR"):
        build.writable([tmp_path / "file" / "below"])


def test_a_jar_of_another_user_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / build.jar_name()).write_text("evil")
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    monkeypatch.setattr(build, "build", lambda target: target)
    monkeypatch.setattr(build, "writable", lambda places: tmp_path / "mine")
    assert build.kernel_jar(tmp_path) == tmp_path / "mine" / build.jar_name()


def test_the_name_of_the_jar_follows_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    before, sources = build.jar_name(), build.scala_files()
    monkeypatch.setattr(build, "scala_files", lambda: sources[1:])
    assert build.jar_name() != before


@pytest.mark.parametrize(
    "version", ['openjdk version "11.0.2"', 'java version "1.8.0_292"', "no version at all"]
)
def test_a_java_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="17"):
        build.java()


def test_no_java_is_said_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="openjdk-17-jre-headless"):
        build.java()
