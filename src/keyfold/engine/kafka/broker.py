"""A Kafka broker of one node on loopback, for development and tests, without Docker."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from keyfold import private
from keyfold.engine.jvm import jars
from keyfold.engine.polling import wait_until
from keyfold.errors import BadOption, BrokerFailed
from keyfold.kernel import api, build
from keyfold.settings import Settings

PLAINTEXT: Final = "PLAINTEXT"
_JARS: Final = Path(__file__).with_name("broker.jars")
_HOST: Final = "127.0.0.1"
_STARTED: Final = "Kafka Server started"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 15.0
_JAVA_OPTIONS: Final = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
# One node holds all of everything, and a group of one need not wait for others.
_PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": PLAINTEXT,
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill, a new start waits this long for the one before to be over.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    # A misspelt topic is an error, not a new topic.
    "auto.create.topics.enable": "false",
}
_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Broker:
    """A broker whose data is in one directory; it ends with this process, even if that is killed.

    Started again on the same directory it has the same topics and the same address.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        port: int | None = None,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        java_options: Sequence[str] = _JAVA_OPTIONS,
    ) -> None:
        """`listeners`: protocols by name, beside the plain one. `users`: passwords for SCRAM, by name."""
        self.directory = directory
        self._settings, self._java_options = settings, tuple(java_options)
        self._users = dict(users or {})
        protocols = {PLAINTEXT: PLAINTEXT, **(listeners or {})}
        free = _free_ports(len(protocols) + 1)
        ports = dict(zip((*protocols, "CONTROLLER"), free, strict=True))
        if port is not None:
            ports[PLAINTEXT] = port
        self._protocols, self._ports = {**protocols, "CONTROLLER": PLAINTEXT}, ports
        self._properties = dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port`, which clients need."""
        return self.address_of(PLAINTEXT)

    def address_of(self, listener: str) -> str:
        """The address of one of several listeners."""
        return f"{_HOST}:{self._ports[listener]}"

    @property
    def log(self) -> Path:
        """What the broker prints."""
        return self.directory / "broker.log"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the broker, and returns when it takes requests."""
        private.directory(self.directory)
        found = jars.fetch("Kafka's broker", jars.read_list(_JARS), self._settings)
        classes = [*found, build.kernel_jar(self._settings.kernel_dir)]
        configuration = self._write("server.properties", self._configuration())
        logging = self._write("log4j2.properties", _LOGGING)
        begun = self.log.stat().st_size if self.log.exists() else 0
        with private.open_private(self.log, "ab") as output:
            self._process = subprocess.Popen(
                [
                    build.java(),
                    *self._java_options,
                    f"-Dlog4j2.configurationFile={logging.as_uri()}",
                    *("-cp", os.pathsep.join(map(str, classes)), api.BROKER, str(configuration)),
                    *self._format_arguments(configuration),
                ],
                # Read to its end, at which the broker ends itself.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                # Ctrl-C is for this process, which then stops the broker.
                process_group=0,
            )
        try:
            self._wait(begun)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends the broker in order: data that it has acknowledged is on disk."""
        process = self._process
        if process is None:
            return
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Ends the broker at once."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]

    def running(self) -> bool:
        """Whether its process is alive."""
        return self._process is not None and self._process.poll() is None

    def _configuration(self) -> str:
        addresses = [f"{name}://{self.address_of(name)}" for name in self._protocols]
        settings = {
            **_PROPERTIES,
            "listeners": ",".join(addresses),
            "advertised.listeners": ",".join(a for a in addresses if not a.startswith("CONTROLLER:")),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in self._protocols.items()),
            "controller.quorum.voters": f"1@{self.address_of('CONTROLLER')}",
            "log.dirs": str(self.directory / "data"),
            **self._properties,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _format_arguments(self, configuration: Path) -> list[str]:
        """A new directory is formatted; one with data is left as it is."""
        if (self.directory / "data" / "meta.properties").exists():
            return []
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        users = [
            part
            for name, password in self._users.items()
            for part in ("--add-scram", f"SCRAM-SHA-256=[name={name},password={password}]")
        ]
        return ["format", "--cluster-id", cluster.replace("-", "k"), "--config", str(configuration), *users]

    def _write(self, name: str, text: str) -> Path:
        file = self.directory / name
        private.write(file, text.encode())
        return file

    def _wait(self, begun: int) -> None:
        process = self._process
        assert process is not None

        def read_log() -> str:
            return self.log.read_bytes()[begun:].decode("utf-8", "replace")

        wait_until(lambda: process.poll() is not None or _STARTED in read_log(), _START_SECONDS)
        if _STARTED in read_log() and process.poll() is None:
            return
        lines = [line for line in read_log().splitlines() if "ERROR" in line or "xception" in line]
        ended = "did not start in time" if process.poll() is None else "ended while it started"
        raise BrokerFailed(
            f"the Kafka broker {ended}",
            given=lines[0] if lines else None,
            hint=f"its output is in {self.log}; is another broker using {self.directory}, or its port?",
        )


def _free_ports(number: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    held = [socket.socket() for _ in range(number)]
    try:
        for one in held:
            one.bind((_HOST, 0))
        return [int(one.getsockname()[1]) for one in held]
    except OSError as error:
        raise BadOption(f"no free port on {_HOST}: {error}") from None
    finally:
        for one in held:
            one.close()
