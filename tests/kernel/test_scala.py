"""The kernel's Scala tests, compiled by the compiler of the kernel and run without a Spark session."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from keyfold.kernel import build
from tests.conftest import missing

pytestmark = pytest.mark.jvm
SUITES = Path(__file__).parent / "scala"
SPARK = Path(pyspark.__file__).parent / "jars"
MUNIT = ("org.scalameta", "munit_2.13", "1.0.0")
# By name, the first digits of the content's SHA-256: what is fetched is what was looked at.
JARS = {
    "hamcrest-core-1.3.jar": "66fdef91e9739348",
    "junit-4.13.2.jar": "8e495b634469d64f",
    "junit-interface-1.0.0.jar": "a8878dcc43dd3156",
    "munit-diff_2.13-1.0.0.jar": "b7d74d7a1430b683",
    "munit_2.13-1.0.0.jar": "568b35eb00366dfd",
    "test-interface-1.0.jar": "15f70b38bb95f300",
}


@pytest.fixture(scope="module")
def munit() -> Path:
    """The test library's jars, fetched once by the resolver that comes with Spark."""
    place = build.writable(build.cache_places(None)) / f"munit-{MUNIT[2]}"
    if not all((place / name).is_file() for name in JARS):
        ivy = next(SPARK.glob("ivy-*.jar"))
        wanted = ["-dependency", *MUNIT, "-confs", "default", "-cache", str(place / "ivy")]
        pattern = str(place / "[artifact]-[revision].[ext]")
        command = [build.java(), "-jar", str(ivy), *wanted, "-retrieve", pattern]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode or not all((place / name).is_file() for name in JARS):
            missing(f"munit, which Ivy could not fetch: {done.stdout[-500:]}")
    for name, digest in JARS.items():
        assert hashlib.sha256((place / name).read_bytes()).hexdigest().startswith(digest), name
    return place


@pytest.fixture(scope="module")
def report(munit: Path) -> Iterator[str]:
    """What JUnit says of all suites."""
    with tempfile.TemporaryDirectory() as classes:
        path = os.pathsep.join((str(build.kernel_jar()), f"{SPARK}/*", *(str(munit / name) for name in JARS)))
        run = [build.java(), "-Xss8m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        compiler = [*run, "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", classes]
        done = subprocess.run(
            [*compiler, *map(str, suites())], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr or done.stdout
        names = [class_name(suite) for suite in suites()]
        opened = (
            f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "sun.nio.ch", "java.lang")
        )
        found = subprocess.run(
            [*run, *opened, "-cp", f"{classes}{os.pathsep}{path}", "org.junit.runner.JUnitCore", *names],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        yield found.stdout + found.stderr


def suites() -> list[Path]:
    return sorted(SUITES.rglob("*Suite.scala"))


def class_name(suite: Path) -> str:
    package = re.match(r"package (\S+)", suite.read_text())
    assert package is not None, suite
    return f"{package[1]}.{suite.stem}"


@pytest.mark.parametrize("suite", suites(), ids=lambda path: path.stem)
def test_a_suite_holds(report: str, suite: Path) -> None:
    failed = re.findall(rf"^\d+\) (.*\({re.escape(class_name(suite))}\))$", report, re.MULTILINE)
    assert not failed, report


def test_every_test_ran(report: str) -> None:
    declared = sum(len(re.findall(r"^  test\(", suite.read_text(), re.MULTILINE)) for suite in suites())
    ran = re.search(r"^OK \((\d+) tests?\)|^Tests run: (\d+)", report, re.MULTILINE)
    assert ran is not None, report
    assert int(ran[1] or ran[2]) == declared > 0
