"""`python -m bench latency`: from a producer to a consumer, in real-time mode and batch by batch."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import keyfold as kf
from keyfold.engine.kafka.broker import Broker
from keyfold.engine.session import own_session
from keyfold.settings import load

KEYS, WARM_UP = 1_000, 15.0
# How long the first changes may take to come, and the last ones.
FIRST, REST = 180.0, 10.0
MODES: dict[str, Any] = {"batch by batch": None, "real time": "realtime"}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench latency", description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="events per second")
    parser.add_argument("--seconds", type=float, default=300, help="for each mode, after a warm-up")
    parser.add_argument("--every", help="how long a batch lasts in real-time mode, as in `kf.App(every=)`")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    chosen = parser.parse_args(arguments)
    found = measure(chosen.rate, chosen.seconds, chosen.every)
    if chosen.json:
        print(json.dumps(found))
        return
    columns = list(next(iter(found.values())))
    table = Table("", *columns, title=f"from producer to consumer, {chosen.rate:,} events per second")
    for mode, figures in found.items():
        table.add_row(mode, *(str(figures[column]) for column in columns))
    Console().print(table)


def measure(rate: int, seconds: float, every: str | None) -> dict[str, dict[str, Any]]:
    """Milliseconds from `produce` to the change in the consumer, without those of a warm-up.

    Of rows of a key that come in one batch only the newest counts, since that is what the change shows.
    """
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as place:
        spark = own_session(load(master="local[4]", driver_memory="2g", home=Path(place)))
        with Broker(Path(place) / "kafka", load()) as broker:
            for number, (mode, latency) in enumerate(MODES.items()):
                run = _Run(broker.address, str(number), rate, seconds, every if latency else None)
                found[mode] = run.measured(spark, Path(place) / str(number), latency)
                print(f"latency, {mode}: {found[mode]}", file=sys.stderr, flush=True)
        spark.stop()
    return found


class _Run:
    """One mode: an app, a thread that sends events, and a consumer of the table's topic."""

    def __init__(self, servers: str, name: str, rate: int, seconds: float, every: str | None) -> None:
        self._servers, self._rate, self._seconds, self._every = servers, rate, seconds, every
        self._events, self._totals = f"events-{name}", f"totals-{name}"
        self._sent = 0
        self._until = time.time() + FIRST
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics([NewTopic(t, 1, 1) for t in (self._events, self._totals)]).values():
            made.result(30)

    def measured(self, spark: Any, home: Path, latency: Any) -> dict[str, Any]:
        app = kf.App("latency", every=self._every)
        source = kf.kafka(self._servers, topic=self._events, start="earliest")
        events = app.stream("events", source, schema="key string, sent double, at timestamp", time="at")
        table = events.by("key").table(
            "totals", n="count(*)", sent="max(sent)", ttl="1 hour", latency=latency, partitions=1
        )
        table.to(kf.kafka(self._servers, topic=self._totals, delivery="at_least_once"))
        with app.start(spark=spark, home=home):
            sending = threading.Thread(target=self._send)
            sending.start()
            taken = self._consumed(sending)
        return {
            "changes": len(taken),
            "events": self._sent,
            "p50 ms": round(statistics.median(taken)),
            "p99 ms": round(statistics.quantiles(taken, n=100)[98]),
            "max ms": round(max(taken)),
        }

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 0})
        begun = time.time()
        while (now := time.time()) < self._until:
            while self._sent < (now - begun) * self._rate:
                at = time.time()
                moment = datetime.fromtimestamp(at, UTC).isoformat()
                row = {"key": f"k{self._sent % KEYS}", "sent": at, "at": moment}
                producer.produce(self._events, json.dumps(row).encode())
                self._sent += 1
            producer.poll(0.001)
        producer.flush(30)

    def _consumed(self, sending: threading.Thread) -> list[float]:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "bench"})
        consumer.assign([TopicPartition(self._totals, 0, 0)])
        taken: list[float] = []
        counted_from, rest = math.inf, math.inf
        while time.time() < rest:
            if rest == math.inf and not sending.is_alive():
                rest = time.time() + REST
            message = consumer.poll(0.05)
            if message is None or message.error() is not None or message.value() is None:
                continue
            if counted_from == math.inf:
                counted_from = time.time() + WARM_UP
                self._until = counted_from + self._seconds
            row = json.loads(message.value())
            if row["sent"] >= counted_from:
                taken.append((time.time() - row["sent"]) * 1000)
        consumer.close()
        if len(taken) < 2:
            raise SystemExit(f"no changes within {FIRST:g} s, or none after a warm-up of {WARM_UP:g} s")
        return taken
