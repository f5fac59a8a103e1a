"""Which class archive a start uses, and which command it starts; no JVM is started here."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from keyfold.engine.jvm import archive_writer, class_archive
from keyfold.engine.jvm.command import JAVA_OPTIONS, java_command, needs_spark_submit
from keyfold.kernel import build
from keyfold.settings import Settings, load

WANTED = {"spark.master": "local[2]", "spark.driver.memory": "1g"}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def java(tmp_path: Path) -> str:
    """A file in the place of `java`, with a release file that says its version."""
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.1"\n')
    (tmp_path / "jdk" / "bin" / "java").write_text("")
    return str(tmp_path / "jdk" / "bin" / "java")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "kernel.jar").write_bytes(b"jar")
    return tmp_path / "kernel.jar"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "cache").mkdir(mode=0o700)
    return load(kernel_dir=tmp_path / "cache")


def archive(java: str, kernel: Path, settings: Settings) -> Path:
    assert settings.kernel_dir is not None
    path = settings.kernel_dir / class_archive.archive_name(java, kernel)
    path.write_bytes(b"archive")
    path.with_suffix(class_archive.SIZE).write_text("7")
    path.chmod(0o600)
    return path


def test_an_archive_is_found_and_marked_as_used(java: str, kernel: Path, settings: Settings) -> None:
    assert class_archive.find(java, kernel, settings) is None
    written = archive(java, kernel, settings)
    os.utime(written, (0, 0))
    assert class_archive.find(java, kernel, settings) == written
    assert time.time() - written.stat().st_mtime < 60
    assert class_archive.options(written)[1] == f"-XX:SharedArchiveFile={written}"


def test_another_kernel_or_another_java_has_another_archive(
    java: str, kernel: Path, settings: Settings
) -> None:
    archive(java, kernel, settings)
    os.utime(kernel, (1, 1))
    assert class_archive.find(java, kernel, settings) is None
    archive(java, kernel, settings)
    kernel.write_bytes(b"another jar")
    os.utime(kernel, (1, 1))
    assert class_archive.find(java, kernel, settings) is None
    archive(java, kernel, settings)
    (Path(java).parents[1] / "release").write_text('JAVA_VERSION="17.0.2"\n')
    assert class_archive.find(java, kernel, settings) is None


def test_an_archive_that_is_not_complete_is_not_used_and_doctor_says_so(
    java: str, kernel: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "java", lambda: java)
    monkeypatch.setattr(class_archive, "find_jar", lambda _: kernel)
    written = archive(java, kernel, settings)
    assert class_archive.condition(settings) == (f"0 MB, {written.parent}", False)
    written.write_bytes(b"arch")
    assert class_archive.find(java, kernel, settings) is None
    wrong = (f"incomplete, or not private to this user: {written}", True)
    assert class_archive.condition(settings) == wrong
    written.write_bytes(b"archive")
    assert class_archive.find(java, kernel, settings) == written
    written.with_suffix(class_archive.SIZE).unlink()
    assert class_archive.condition(settings) == wrong


def test_an_archive_that_another_user_may_have_written_is_not_used(
    java: str, kernel: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = archive(java, kernel, settings)
    assert class_archive.usable(written)
    for path, loose, tight in ((written, 0o620, 0o600), (written.parent, 0o777, 0o700)):
        path.chmod(loose)
        assert class_archive.find(java, kernel, settings) is None
        path.chmod(tight)
    link = written.with_name("link.jsa")
    link.symlink_to(written)
    link.with_suffix(class_archive.SIZE).write_text(str(link.lstat().st_size))
    assert not class_archive.usable(link)
    monkeypatch.setattr(os, "getuid", lambda: written.stat().st_uid + 1)
    assert class_archive.find(java, kernel, settings) is None


def test_the_archive_can_be_turned_off(java: str, kernel: Path, settings: Settings) -> None:
    archive(java, kernel, settings)
    off = load(kernel_dir=settings.kernel_dir, class_archive=False)
    assert class_archive.find(java, kernel, off) is None
    assert class_archive.options(None) == ()


def test_a_failure_to_write_one_is_remembered_for_a_day(java: str, kernel: Path, settings: Settings) -> None:
    written = archive(java, kernel, settings)
    written.unlink()
    note = written.with_suffix(class_archive.FAILED)
    note.write_text("the disk is full\n")
    assert class_archive.describe(java, kernel, settings).failed == "the disk is full"
    os.utime(note, (0, 0))
    assert class_archive.describe(java, kernel, settings).failed is None


def test_only_the_archives_used_last_are_kept(settings: Settings) -> None:
    place = settings.kernel_dir
    assert place is not None
    for number in range(4):
        file = place / f"{class_archive.PREFIX}{number}{class_archive.SUFFIX}"
        file.write_bytes(b"")
        file.with_suffix(class_archive.SIZE).write_text("0")
        os.utime(file, (number, number))
    (place / "keyfold-kernel.jar").write_bytes(b"")
    archive_writer.prune(place)
    assert sorted(path.name for path in place.iterdir()) == [
        "keyfold-classes-2.jsa",
        "keyfold-classes-2.size",
        "keyfold-classes-3.jsa",
        "keyfold-classes-3.size",
        "keyfold-kernel.jar",
    ]


@pytest.mark.parametrize(
    ("variables", "more"),
    [
        ({"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}, {}),
        ({"SPARK_CONF_DIR": "/etc/spark"}, {}),
        ({"HADOOP_CONF_DIR": "/etc/hadoop"}, {}),
        ({}, {"spark.master": "spark://host:7077"}),
        ({}, {"spark.driver.extraClassPath": "x.jar"}),
        ({}, {JAVA_OPTIONS: "-Xmx2g"}),
        ({}, {JAVA_OPTIONS: "-Da='b"}),
    ],
)
def test_what_sparks_launcher_alone_understands_is_left_to_it(
    variables: dict[str, str], more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not needs_spark_submit(WANTED)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert needs_spark_submit({**WANTED, **more})


def test_the_users_java_options_come_after_the_archives(
    java: str, kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dfirst=1")
    given = {**WANTED, JAVA_OPTIONS: "-XX:SharedArchiveFile=mine -Da='b c'"}
    options = class_archive.options(tmp_path / "own.jsa")
    found = java_command(java, kernel, given, tmp_path / "p", options)
    own, mine = (found.index(f"-XX:SharedArchiveFile={name}") for name in (tmp_path / "own.jsa", "mine"))
    assert own < found.index("-Dfirst=1") < mine < found.index("-Da=b c")
    assert found[-3:] == ["--extra-properties-file", str(tmp_path / "p"), "pyspark-shell"]


def test_sparks_version_is_known_without_importing_it() -> None:
    import pyspark

    assert build.spark_version() == pyspark.__version__
    assert build.spark_home() == Path(pyspark.__file__).resolve().parent
