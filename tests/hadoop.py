"""Hadoop on loopback: an HDFS, and a YARN whose containers are processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import psutil

from keyfold.engine.polling import wait_until
from keyfold.kernel import build
from tests.jars import SPARK, fetched
from tests.ports import free_port

MINICLUSTER = {
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0": "06772d24529e5993",
    "org.junit.jupiter:junit-jupiter-api:5.13.3": "1a15a52253a972c8",
    "org.junit.platform:junit-platform-commons:1.13.3": "02cd66a55df750a1",
    "org.opentest4j:opentest4j:1.3.0": "48e2df636cab6563",
}
# What a ResourceManager needs besides.
RESOURCE_MANAGER = {
    "org.bouncycastle:bcprov-jdk18on:1.82": "14cde2fdfaa88904",
    "org.bouncycastle:bcpkix-jdk18on:1.82": "bdc723e20834832a",
    "org.bouncycastle:bcutil-jdk18on:1.82": "4420691958ad1c0b",
}
# Of Spark's jars, what Hadoop's servers need beside their own.
HADOOP = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*")
_YARN = "org.apache.hadoop.yarn.server"
# What a ResourceManager listens on.
_ADDRESSES = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")


@contextmanager
def hdfs(place: Path) -> Iterator[str]:
    """The address of an HDFS: a NameNode and a DataNode in one JVM, on free ports."""
    details = place / "details.json"
    manager = ["org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-nnport", "0"]
    with _java(place, "hdfs", [*manager, "-writeDetails", str(details)]) as process:
        wait_until(lambda: process.poll() is not None or _written(details), 120)
        assert _written(details), (place / "hdfs.log").read_text()[-3000:]
        yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"


@dataclass(frozen=True)
class Yarn:
    """A YARN with one NodeManager, which starts containers in its directory of local files."""

    conf: Path
    node: subprocess.Popen[bytes]
    local: Path
    logs: Path


@contextmanager
def yarn(place: Path, default: str) -> Iterator[Yarn]:
    """A ResourceManager and a NodeManager, each in a JVM, with this default file system."""
    conf = place / "conf"
    conf.mkdir()
    _configure(conf / "core-site.xml", {"fs.defaultFS": default, "hadoop.tmp.dir": str(place / "tmp")})
    _configure(conf / "yarn-site.xml", _settings(place))
    with (
        _java(place, "manager", [f"{_YARN}.resourcemanager.ResourceManager"], conf) as manager,
        _java(place, "node", [f"{_YARN}.nodemanager.NodeManager"], conf) as node,
    ):
        log = place / "manager.log"
        up = "Node Transitioned from NEW to RUNNING"
        wait_until(lambda: manager.poll() or node.poll() or up in log.read_text(), 120)
        assert up in log.read_text(), log.read_text()[-3000:] + (place / "node.log").read_text()[-3000:]
        yield Yarn(conf, node, place / "local", place / "logs")


def _settings(place: Path) -> dict[str, str]:
    return {
        **{f"yarn.resourcemanager.{name}": f"127.0.0.1:{free_port()}" for name in _ADDRESSES},
        **{f"yarn.nodemanager.{name}address": "127.0.0.1:0" for name in ("", "localizer.", "webapp.")},
        "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.resource.memory-mb": "8192",
        "yarn.nodemanager.local-dirs": str(place / "local"),
        "yarn.nodemanager.log-dirs": str(place / "logs"),
        # A JVM reserves much more address space than it uses.
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    }


def _configure(file: Path, settings: Mapping[str, str]) -> None:
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


@contextmanager
def _java(
    place: Path, name: str, command: list[str], conf: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One of Hadoop's servers, which is killed at the end with all that it started."""
    jars = [
        *fetched("minicluster", {**MINICLUSTER, **(RESOURCE_MANAGER if conf else {})}),
        *(jar for pattern in HADOOP for jar in SPARK.glob(f"{pattern}.jar")),
    ]
    path = os.pathsep.join(map(str, [*([conf] if conf else []), *jars]))
    java, logging = build.java(), place / "log4j2.properties"
    logging.write_text("rootLogger.level = info\nrootLogger.appenderRef.a.ref = a\n" + _CONSOLE)
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={logging}"]
    opened = ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
    with (place / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [java, *options, *opened, "-cp", path, *command],
            cwd=place,
            # NodeManagers start containers with their own Java.
            env={**os.environ, "JAVA_HOME": str(Path(java).resolve().parents[1])},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        started = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()


_CONSOLE = """\
appender.a.type = Console
appender.a.name = a
appender.a.layout.type = PatternLayout
appender.a.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def _written(file: Path) -> bool:
    return file.is_file() and file.read_text().endswith("}")
