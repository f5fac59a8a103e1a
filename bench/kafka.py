"""Totals from a topic: keyfold beside Kafka Streams, exactly once; and five tables on one topic."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA
from bench.text import turns, verdict
from keyfold.engine import start
from keyfold.engine.jvm import jars
from keyfold.engine.kafka.broker import Broker
from keyfold.kernel import build
from keyfold.settings import load

PEERS: Final = Path(__file__).parent / "peers"
# How many times as fast as Kafka Streams, by the number of keys; and how long five tables may take.
LEAST_OF_PEER: Final = {10_000: 1.2, 1_000_000: 2.0}
MOST_OF_FIVE: Final = 2.0
PARTITIONS, THREADS, BATCH = 4, 2, 2_000_000


def measure(spark: Any, rounds: int, rows: int) -> dict[str, dict[str, Any]]:
    """Medians of rounds, after one for warming up; contestants take turns."""
    directory = tempfile.mkdtemp(prefix="keyfold-bench-")
    try:
        with Broker(Path(directory), load()) as broker:
            found: dict[str, dict[str, Any]] = {}
            for keys, least in LEAST_OF_PEER.items():
                _produced(broker.address, f"events-{keys}", keys, rows)
                found |= _compared(spark, broker.address, keys, least, rounds, rows)
            return found
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _compared(
    spark: Any, servers: str, keys: int, least: float, rounds: int, rows: int
) -> dict[str, dict[str, Any]]:
    topic = f"events-{keys}"
    runs: dict[str, Callable[[], float]] = {
        "kafka streams": lambda: _kafka_streams(servers, topic, rows),
        "keyfold": lambda: _keyfold(spark, servers, topic, 1, views="none"),
        "keyfold, views": lambda: _keyfold(spark, servers, topic, 1, views="sqlite"),
    }
    if keys == min(LEAST_OF_PEER):
        runs["keyfold, 5 tables"] = lambda: _keyfold(spark, servers, topic, 5, views="none")
    seconds = turns(f"kafka, {keys:,} keys", runs, rounds)
    peer, own = seconds["kafka streams"], seconds["keyfold"]
    found = {}
    for name, taken in seconds.items():
        entry = {"events/s": round(rows / taken), "ratio": round(peer / taken, 2)}
        if name == "keyfold, 5 tables":
            entry["bar"] = verdict(taken / own, MOST_OF_FIVE, at_least=False, of="the time of 1")
        elif name != "kafka streams":
            entry["bar"] = verdict(peer / taken, least, at_least=True, of="kafka streams")
        found[f"{keys:,} keys: {name}"] = entry
    return found


def _produced(servers: str, topic: str, keys: int, rows: int) -> None:
    """Fills a topic with the lines that other suites read from files; the key of a line is the message's."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    for file in sorted(data.text("json", keys, rows, rows // 5).glob("*.json")):
        with file.open("rb") as lines:
            for line in lines:
                key = line[8 : line.index(b'"', 8)]
                while True:
                    try:
                        producer.produce(topic, line.rstrip(), key)
                        break
                    except BufferError:
                        producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def _keyfold(spark: Any, servers: str, topic: str, tables: int, views: str) -> float:
    """Seconds from the start until every table has all rows."""
    home, begun = tempfile.mkdtemp(prefix="keyfold-bench-"), time.monotonic()
    app = kf.App("bench")
    source = kf.kafka(servers, topic=topic, options={"maxOffsetsPerTrigger": str(BATCH)})
    stream = app.stream("events", source, schema=SCHEMA)
    for number in range(tables):
        stream.by("key").table(f"totals{number}", AGGREGATES)
    handle = start.start(app.spec(), spark=spark, home=home, settings={"views": views})
    try:
        handle.drain()
        return time.monotonic() - begun
    finally:
        handle.stop()
        shutil.rmtree(home, ignore_errors=True)


def _kafka_streams(servers: str, topic: str, rows: int) -> float:
    """Seconds as it prints them: from its start, in a JVM that already runs, until all rows are committed."""
    found = jars.fetch("Kafka Streams", jars.read_list(PEERS / "kafka_streams.jars"), load())
    command = [
        *(build.java(), "-Xmx4g", "-cp", ":".join(map(str, found))),
        *(str(PEERS / "KafkaStreamsTotals.java"), servers, topic, str(rows), str(THREADS)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        raise RuntimeError(f"Kafka Streams failed:\n{done.stdout}{done.stderr}")
    return float(done.stdout.split()[-1])
