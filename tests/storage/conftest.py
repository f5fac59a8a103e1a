"""A Spark session, an HDFS and an S3, all in processes of their own on loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.polling import wait_until
from keyfold.settings import load
from tests import hadoop
from tests.conftest import LONG, missing
from tests.jars import fetched

# S3 needs 680 MB of Amazon's client: `make test-long` alone fetches it.
collect_ignore = [] if LONG else ["test_s3.py"]

S3A = {
    "org.apache.hadoop:hadoop-aws:3.5.0": "66bd9eefb938b1a1",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1": "4959a9747cbb479c",
    "software.amazon.awssdk:bundle:2.35.4": "db4b55f24ad1b4e7",
}
MOTO = "moto[s3,server]==5.2.5"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session of all tests here, with S3's client where it is tested."""
    extra = s3a_client() if LONG else {}
    home = Path(tempfile.mkdtemp(prefix="keyfold-storage-"))
    found = session.own_session(load(master="local[2]", driver_memory="1g", home=home), extra)
    yield found
    found.stop()
    shutil.rmtree(home)


def s3a_client() -> dict[str, str]:
    """Hadoop's client of S3 for a local session."""
    return {"spark.driver.extraClassPath": os.pathsep.join(map(str, fetched("s3a", S3A)))}


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an HDFS."""
    with hadoop.hdfs(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(scope="session")
def s3(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a bucket in moto's server, which the session's settings lead to."""
    uv = shutil.which("uv") or str(Path(os.sys.executable).with_name("uv"))
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [uv, "tool", "run", "--no-config", "--from", MOTO, "moto_server", "-H", "127.0.0.1", "-p", "0"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: process.poll() is not None or _address(log), 240)
        address = _address(log)
        if address is None:
            missing(f"moto's server: {log.read_text()[-500:]}")
        for name, value in s3a_settings(address).items():
            spark.conf.set(name, value)
        _make_bucket(address)
        yield "s3a://keyfold-test"
    finally:
        process.terminate()
        process.wait()


def s3a_settings(address: str | None) -> dict[str, str]:
    """What Hadoop's client of S3 needs for moto's server at an address."""
    settings = {
        "endpoint": str(address),
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "test",
        "secret.key": "test",
        "connection.ssl.enabled": "false",
        # Amazon's asynchronous client takes the "100 Continue" of moto's server for the end.
        "connection.expect.continue": "false",
        "optimized.copy.from.local.enabled": "false",
    }
    return {f"fs.s3a.{name}": value for name, value in settings.items()}


def _address(log: Path) -> str | None:
    found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())
    return found[1] if found else None


def _make_bucket(address: str | None) -> None:
    from urllib.request import Request, urlopen

    with urlopen(Request(f"{address}/keyfold-test", method="PUT")):
        pass
