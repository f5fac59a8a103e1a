"""A Spark session, an HDFS and an S3, all in processes of their own on loopback."""

from __future__ import annotations

import json
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
from keyfold.kernel import build
from keyfold.settings import load
from tests.conftest import LONG, missing
from tests.jars import SPARK, fetched

# S3 needs 680 MB of Amazon's client: `make test-long` alone fetches it.
collect_ignore = [] if LONG else ["test_s3.py"]

MINICLUSTER = {
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0": "06772d24529e5993",
    "org.junit.jupiter:junit-jupiter-api:5.13.3": "1a15a52253a972c8",
    "org.junit.platform:junit-platform-commons:1.13.3": "02cd66a55df750a1",
    "org.opentest4j:opentest4j:1.3.0": "48e2df636cab6563",
}
S3A = {
    "org.apache.hadoop:hadoop-aws:3.5.0": "66bd9eefb938b1a1",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1": "4959a9747cbb479c",
    "software.amazon.awssdk:bundle:2.35.4": "db4b55f24ad1b4e7",
}
MOTO = "moto[s3,server]==5.2.5"
# Of Spark's jars, what a NameNode needs beside its own.
HADOOP = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session of all tests here, with S3's client where it is tested."""
    extra = {"spark.driver.extraClassPath": os.pathsep.join(map(str, fetched("s3a", S3A)))} if LONG else {}
    home = Path(tempfile.mkdtemp(prefix="keyfold-storage-"))
    found = session.own_session(load(master="local[2]", driver_memory="1g", home=home), extra)
    yield found
    found.stop()
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an HDFS: a NameNode and a DataNode in one JVM, on free ports."""
    place = tmp_path_factory.mktemp("hdfs")
    details = place / "details.json"
    jars = [
        *fetched("minicluster", MINICLUSTER),
        *(jar for name in HADOOP for jar in SPARK.glob(f"{name}.jar")),
    ]
    java = [
        build.java(),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        os.pathsep.join(map(str, jars)),
    ]
    manager = ["org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-nnport", "0"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [*java, *manager, "-writeDetails", str(details)],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: process.poll() is not None or _written(details), 120)
        assert _written(details), (place / "log").read_text()[-3000:]
        yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
    finally:
        process.kill()
        process.wait()


def _written(file: Path) -> bool:
    return file.is_file() and file.read_text().endswith("}")


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
        for name, value in {
            "endpoint": address,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
            "connection.ssl.enabled": "false",
            # Amazon's asynchronous client takes the "100 Continue" of moto's server for the end.
            "connection.expect.continue": "false",
            "optimized.copy.from.local.enabled": "false",
        }.items():
            spark.conf.set(f"fs.s3a.{name}", value)
        _make_bucket(address)
        yield "s3a://keyfold-test"
    finally:
        process.terminate()
        process.wait()


def _address(log: Path) -> str | None:
    found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())
    return found[1] if found else None


def _make_bucket(address: str | None) -> None:
    from urllib.request import Request, urlopen

    with urlopen(Request(f"{address}/keyfold-test", method="PUT")):
        pass
