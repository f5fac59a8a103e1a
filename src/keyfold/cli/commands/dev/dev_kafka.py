"""`keyfold dev kafka`: runs a Kafka broker on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.options import For, Json, seconds_of

if TYPE_CHECKING:
    from keyfold.engine.kafka.broker import Broker

PREFIX = "keyfold-kafka-"


def command(
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="PORT", min=1, max=65535, help="Default: a free port.", show_default=False
        ),
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Where to keep topics from one start to the next. Default: a temporary directory.",
            show_default=False,
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="NAME[:PARTITIONS]",
            help="A topic to create if it does not exist; can be repeated.",
            show_default=False,
        ),
    ] = None,
    for_: For = None,
    json: Json = False,
) -> None:
    """Run a single-node Kafka broker on this machine, without Docker.

    Prints the address for kf.kafka, and listens on the loopback interface only. The first start downloads
    Kafka, some 45 MB. The broker stops with this command, on Ctrl-C or when the command is killed.

    With --json the address is printed as a document as soon as the broker accepts requests.

    Example: keyfold dev kafka --topic orders:4

    Example: keyfold dev kafka --dir kafka-data --port 9092 --json
    """
    from keyfold.cli import output
    from keyfold.cli.running.signals import Stopping
    from keyfold.engine.kafka import topics as created
    from keyfold.settings import load

    wanted = [created.parse_topic(topic) for topic in topics or ()]
    with Stopping() as stopping, _place(directory) as home, _broker(home, port, load()) as broker:
        for name, partitions in wanted:
            created.create(broker.address, name, partitions)
        found = {
            "address": broker.address,
            "directory": str(home),
            "pid": broker.pid,
            "topics": dict(wanted),
        }
        output.json_document(found) if json else print(broker.address, flush=True)
        _flush()
        stopping.up()
        output.say(f"a Kafka broker is up at {broker.address}, with its files in {home}; Ctrl-C ends it")
        _wait(broker, stopping.asked, seconds_of(for_))


def _flush() -> None:
    import sys

    sys.stdout.flush()


def _wait(broker: Broker, asked: threading.Event, seconds: float | None) -> None:
    import time

    from keyfold.errors import BrokerFailed

    deadline = None if seconds is None else time.monotonic() + seconds
    while not asked.wait(0.1):
        if not broker.running():
            raise BrokerFailed("the Kafka broker has ended", hint=f"its output is in {broker.log}")
        if deadline is not None and time.monotonic() > deadline:
            return


@contextmanager
def _broker(home: Path, port: int | None, settings: object) -> Iterator[Broker]:
    from keyfold.engine.kafka.broker import Broker

    with Broker(home, settings, port=port) as broker:  # type: ignore[arg-type]
        yield broker


@contextmanager
def _place(directory: str | None) -> Iterator[Path]:
    from keyfold.cli.running.temporary import temporary_directory

    if directory is not None:
        yield Path(directory).expanduser().resolve()
        return
    with temporary_directory(PREFIX) as home:
        yield home
