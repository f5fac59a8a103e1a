"""What a JVM of keyfold's own is started with, and where its temporary files are; no JVM is started here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.engine.jvm.launch import properties, submitting
from keyfold.engine.jvm.scratch import Scratch
from keyfold.engine.session_settings import wanted_of
from keyfold.settings import load

JAR = Path("/cache/kernel.jar")
OPTIONS = "spark.driver.extraJavaOptions"


def wanted(home: Path, spark: dict[str, str], **extra: str) -> dict[str, str]:
    return wanted_of(load(home=home, spark=spark), JAR, extra)


@pytest.mark.parametrize(
    ("given", "jars"),
    [
        ("x.jar", ["x.jar"]),
        (" x.jar , y.jar,,", ["x.jar", "y.jar"]),
        (f"x.jar,{JAR},x.jar", ["x.jar"]),
        ("", []),
    ],
)
def test_jars_of_the_user_are_added_to_the_kernels(tmp_path: Path, given: str, jars: list[str]) -> None:
    assert wanted(tmp_path, {"spark.jars": given})["spark.jars"].split(",") == [str(JAR), *jars]


def test_jars_from_the_environment_are_added_and_packages_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYFOLD_SPARK", '{"spark.jars": "x.jar", "spark.jars.packages": "a:b:1"}')
    found = wanted_of(load(home=tmp_path), JAR, {})
    assert found["spark.jars"] == f"{JAR},x.jar"
    assert found["spark.jars.packages"] == "a:b:1"


def test_java_options_of_the_user_are_added_to_keyfolds_and_come_last(tmp_path: Path) -> None:
    *own, mine = wanted(tmp_path, {OPTIONS: "-Dlog4j2.configurationFile=mine"})[OPTIONS].split()
    assert own[0].startswith("-Dlog4j2.configurationFile=file:")
    assert mine == "-Dlog4j2.configurationFile=mine"
    assert wanted(tmp_path, {})[OPTIONS].split() == own


def test_other_settings_of_the_user_replace_keyfolds(tmp_path: Path) -> None:
    found = wanted(tmp_path, {"spark.ui.enabled": "true", "spark.app.name": "mine"})
    assert (found["spark.ui.enabled"], found["spark.app.name"]) == ("true", "mine")


def test_the_driver_is_on_the_loopback_address_on_a_local_master_alone(tmp_path: Path) -> None:
    host = "spark.driver.host"
    assert wanted(tmp_path, {}).get(host) == "127.0.0.1"
    assert wanted_of(load(home=tmp_path, master="local[3]"), JAR, {}).get(host) == "127.0.0.1"
    for found in (
        wanted_of(load(home=tmp_path, master="spark://h:7077"), JAR, {}),
        wanted(tmp_path, {"spark.master": "yarn"}),
    ):
        assert found.get(host) is None
        assert found["spark.master"] in ("spark://h:7077", "yarn")


def test_a_submitted_master_is_respected(tmp_path: Path) -> None:
    submitted = {"spark.master": "yarn"}
    found = wanted_of(load(home=tmp_path), JAR, {}, submitted)
    assert found["spark.master"] == "yarn"
    assert "spark.driver.host" not in found
    assert wanted_of(load(home=tmp_path, master="local[2]"), JAR, {}, submitted)["spark.master"] == "local[2]"
    assert "spark.master" not in wanted_of(load(home=tmp_path), JAR, {}, {}), "the JVM may have another way"


def test_submitted_settings_replace_keyfolds_and_are_replaced_by_those_of_the_app(tmp_path: Path) -> None:
    overhead, partitions = "spark.executor.memoryOverhead", "spark.sql.shuffle.partitions"
    submitted = {
        "spark.master": "spark://h:7077",
        "spark.jars": "a.jar",
        "spark.app.name": "shop",
        partitions: "64",
        overhead: "5g",
    }
    settings = load(home=tmp_path, spark={"spark.app.name": "mine"})
    found = wanted_of(settings, JAR, {}, submitted)
    assert found["spark.jars"] == f"{JAR},a.jar"
    assert (found["spark.app.name"], found[partitions], found[overhead]) == ("mine", "64", "5g")


def read(text: str) -> dict[str, str]:
    """Java's properties, as far as this file uses them."""
    pairs = (line.split("=", 1) for line in text.splitlines())
    return {
        name.encode().decode("unicode_escape"): value.encode().decode("unicode_escape")
        for name, value in pairs
    }


def test_settings_are_written_so_that_java_reads_them_back() -> None:
    settings = {"spark.a b": " =:#!\\ \n", "spark.c": "ä", "spark.d": 'local[*] "x"'}
    assert read(properties(settings)) == settings
    assert properties({"spark.e": "🎈"}) == "spark.e=\\ud83c\\udf88\n"


def test_settings_reach_the_jvm_by_a_private_file_and_not_by_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    home = tmp_path / "a home"
    given = wanted(home, {"spark.my.password": "s3cret"})
    with Scratch(home) as scratch:
        with submitting(given, scratch):
            file = scratch.path / "spark.properties"
            assert os.environ["PYSPARK_SUBMIT_ARGS"] == (
                f"--extra-properties-file '{file}' --verbose pyspark-shell"
            )
            assert file.stat().st_mode & 0o777 == 0o600
            found = read(file.read_text())
        assert not file.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"
    assert found["spark.my.password"] == "s3cret"
    assert found["spark.local.dir"] == str(scratch.path)
    assert found[OPTIONS].startswith(f'-Djava.io.tmpdir="{scratch.path}" -Dlog4j2')


def test_the_users_place_for_local_files_wins(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch, submitting(wanted(tmp_path, {"spark.local.dir": "/big"}), scratch):
        assert read((scratch.path / "spark.properties").read_text())["spark.local.dir"] == "/big"


def test_executors_elsewhere_have_places_of_their_own(tmp_path: Path) -> None:
    given = wanted(tmp_path, {"spark.master": "spark://host:7077"})
    with Scratch(tmp_path) as scratch, submitting(given, scratch):
        assert "spark.local.dir" not in read((scratch.path / "spark.properties").read_text())


def test_a_place_lasts_as_long_as_the_process_that_inherited_it(tmp_path: Path) -> None:
    with Scratch(tmp_path) as first:
        jvm = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, **first.inherited)
    (first.path / "left").mkdir()
    try:
        with Scratch(tmp_path) as second:
            assert first.path.exists()
            assert first.path.stat().st_mode & 0o777 == 0o700
        with Scratch(tmp_path) as third:
            assert not second.path.exists(), "nobody holds it"
            assert first.path.exists()
    finally:
        jvm.kill()
        jvm.communicate()
    with Scratch(tmp_path) as last:
        assert sorted((tmp_path / ".tmp").glob("run-*")) == [last.path]
        assert third.path != last.path


def test_a_jvm_that_outlives_a_run_has_its_place_outside_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Scratch(None) as left:
        own = left.path.parents[1]
        assert own.parent == tmp_path
        assert own.stat().st_mode & 0o777 == 0o700
    with Scratch(tmp_path / "home"):
        assert not left.path.exists(), "nobody holds it any more"
        assert own.exists(), "it may be just being made"
    os.utime(own, (0, 0))
    with Scratch(tmp_path / "home"):
        assert not own.exists()


def test_the_memory_of_state_is_added_to_that_of_executors_unless_it_is_given(
    tmp_path: Path,
) -> None:
    bound = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"
    overhead = "spark.executor.memoryOverhead"
    settings = load(home=tmp_path, master="yarn", state_memory="2g")
    found = wanted_of(settings, Path("kernel.jar"), {})
    assert (found[bound], found[overhead]) == ("2048", f"{2048 + 384}m")
    given = wanted_of(settings, Path("kernel.jar"), {overhead: "5g", bound: "100"})
    assert (given[bound], given[overhead]) == ("100", "5g")
    assert overhead not in wanted_of(load(home=tmp_path), Path("kernel.jar"), {})
    # A number alone is in mebibytes, and Spark on Kubernetes submits what it takes for Python apps.
    pod = {"spark.executor.memory": "10000", "spark.kubernetes.memoryOverheadFactor": "0.4"}
    assert wanted_of(settings, Path("kernel.jar"), {}, pod)[overhead] == f"{2048 + 4000}m"
