"""What all tests share.

A test that needs a part which can't be had here skips with the part's name; with CI=true that is a failure,
so that a green run means that everything ran. Only facts of other engines (marker `oracle`), no part of this
repository, and the right to mount a disk (marker `mount`) may be absent there too.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests import postgres as postgres_server
from tests.core import is_core

# `make test-long` draws new examples in each run; `make test` draws the same ones every time.
LONG = os.environ.get("KEYFOLD_TEST_LONG") == "1"
settings.register_profile("keyfold", derandomize=not LONG, database=None, print_blob=LONG)
settings.load_profile("keyfold")

# Java's second compiler and a collector with threads of its own cost more than they save in a test's short
# life. Spark hands this to every JVM that it starts, also below other processes.
# Without that compiler Java also has 48 MB for compiled code, not 240, which a hundred queries fill: then it
# throws code away and compiles it again.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
)
# Where tests run in several processes, these are told how wide a terminal is that they don't have.
os.environ.pop("COLUMNS", None)


def missing(part: str) -> None:
    """Skips the test for want of a part; fails it in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{part} is missing, and CI=true asks for everything")
    pytest.skip(f"needs {part}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    """A PostgreSQL server, started for the first test of the process that asks for it."""
    if postgres_server.programs() is None:
        missing("a PostgreSQL server (Debian, Ubuntu: apt-get install postgresql)")
    with postgres_server.running() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make test` runs; `make test-all` runs what is not marked."""
    for item in items:
        file, _, name = item.nodeid.removeprefix("tests/").partition("::")
        # Brokers are JVMs too, where a test has no Spark.
        jvm = file.startswith("kafka/") or item.get_closest_marker("jvm") is not None
        if is_core(file, name, jvm=jvm):
            item.add_marker("core")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """In CI a skip is a failure, whoever asked for it."""
    report = yield
    absent = item.get_closest_marker("oracle") or item.get_closest_marker("mount")
    expected = hasattr(report, "wasxfail") or absent
    if os.environ.get("CI") == "true" and report.skipped and not expected:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
