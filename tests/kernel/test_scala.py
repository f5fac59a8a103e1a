"""The kernel's Scala tests, compiled by the compiler of the kernel and run without a Spark session."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.kernel import build
from tests.jars import SPARK, fetched

pytestmark = pytest.mark.jvm
SUITES = Path(__file__).parent / "scala"
MUNIT = {
    "org.hamcrest:hamcrest-core:1.3": "66fdef91e9739348",
    "junit:junit:4.13.2": "8e495b634469d64f",
    "org.scalameta:junit-interface:1.0.0": "a8878dcc43dd3156",
    "org.scalameta:munit-diff_2.13:1.0.0": "b7d74d7a1430b683",
    "org.scalameta:munit_2.13:1.0.0": "568b35eb00366dfd",
    "org.scala-sbt:test-interface:1.0": "15f70b38bb95f300",
}


@pytest.fixture(scope="module")
def munit() -> list[Path]:
    """The test library's jars."""
    return fetched("munit-1.0.0", MUNIT)


@pytest.fixture(scope="module")
def report(munit: list[Path]) -> Iterator[str]:
    """What JUnit says of all suites."""
    with tempfile.TemporaryDirectory() as classes:
        path = os.pathsep.join((str(build.kernel_jar()), f"{SPARK}/*", *map(str, munit)))
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
