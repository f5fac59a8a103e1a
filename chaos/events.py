"""The rows of the app's streams, the same for the same seed, and their arrival: as files, and in a topic."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from keyfold.engine.kafka.sending import Sender

START = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = timedelta(minutes=30)
USERS, CUSTOMERS = 50, 40
STREAMS = ("clicks", "orders", "payments", "profiles")
MESSAGES = "visits"
"""The stream that is a topic; a message is a line of its file."""
PARTITIONS = 2
BATCH = 300
"""How many messages the app reads in a batch at most."""


def generate(place: Path, files: int, rows: int, seed: int) -> None:
    """Writes so many files per stream; the n-th files of all streams are of the same half hour."""
    chance = random.Random(seed)
    begun = time.time() - 24 * 3600
    for number in range(files):
        for stream in (*STREAMS, MESSAGES):
            lines = _LINES[stream](chance, number, rows)
            path = place / stream / f"{number:04d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            # Spark takes files by age.
            os.utime(path, (begun + number,) * 2)


def arrive(source: Path, target: Path, number: int) -> None:
    """Puts the n-th file of every stream where the app reads, whole and with its age."""
    for stream in STREAMS:
        (target / stream).mkdir(parents=True, exist_ok=True)
        os.link(source / stream / f"{number:04d}.json", target / stream / f"{number:04d}.json")


def send(source: Path, servers: str, topic: str, number: int) -> None:
    """Sends the n-th messages; a user's are in one partition, in order."""
    with Sender(servers) as sender:
        for line in (source / MESSAGES / f"{number:04d}.json").read_bytes().splitlines():
            user = re.search(rb'"user": "(\w+)', line)
            sender.send(topic, user[1] if user else b"", line)


def _clicks(chance: random.Random, number: int, rows: int) -> Iterator[str]:
    for row in range(rows):
        at = _time(chance, number)
        kind = chance.random()
        if kind < 0.01:
            yield '{"id": 1, "user": "cut'
            continue
        if kind < 0.03:
            at -= timedelta(hours=chance.randint(2, 9))
        known = number * rows + row
        click: dict[str, Any] = {
            "id": chance.randint(max(0, known - 50), known) if kind < 0.1 else known,
            "user": None if 0.10 < kind < 0.11 else f"u{int(chance.triangular(0, USERS, 5))}",
            "page": f"/{chance.randrange(8)}",
            "ms": chance.randint(1, 1000),
        }
        yield json.dumps({**click, "at": _text(at)})


def _visits(chance: random.Random, number: int, rows: int) -> Iterator[str]:
    for row in range(rows):
        kind, at = chance.random(), _time(chance, number)
        if kind < 0.01:
            yield '{"id": 1, "user": "cut'
            continue
        if kind < 0.03 and number > files_of_a_batch(rows):
            at -= lateness(rows) + timedelta(hours=chance.randrange(6))
        visit = {"id": number * rows + row, "user": f"u{chance.randrange(USERS)}"}
        visit |= {"ms": chance.randint(1, 1000)}
        yield json.dumps({**visit, "at": _text(at)})


def files_of_a_batch(rows: int) -> int:
    """Over how many files the messages of one batch may extend, wherever it begins."""
    return (BATCH - 1) // rows + 2


def lateness(rows: int) -> timedelta:
    """How old a message must be to be late in every batch that may have it.

    The watermark is an hour behind the batches before, of whose partitions one may be a file behind; the
    message is anywhere in its file's time, and its window closes at most a quarter of an hour after it.
    """
    return (files_of_a_batch(rows) + 2) * SPAN + timedelta(hours=1, minutes=15)


def _orders(chance: random.Random, number: int, rows: int) -> Iterator[str]:
    for row in range(rows):
        order = {"id": number * rows + row, "customer": f"c{chance.randrange(CUSTOMERS)}"}
        order |= {"sku": f"s{chance.randrange(6)}", "amount": chance.randint(1, 100)}
        yield json.dumps({**order, "at": _text(_time(chance, number))})


def _payments(chance: random.Random, number: int, rows: int) -> Iterator[str]:
    """Of this file's orders and of those before: nine of ten in time."""
    for row in range(rows):
        if chance.random() < 0.9:
            known = max(0, number - chance.randrange(2)) * rows + row
            paid = {"id": known, "paid": chance.randint(1, 100), "at": _text(_time(chance, number))}
            yield json.dumps(paid)


def _profiles(chance: random.Random, number: int, rows: int) -> Iterator[str]:
    for at in sorted(_time(chance, number) for _ in range(max(1, rows // 20))):
        profile = {
            "customer": f"c{chance.randrange(CUSTOMERS)}",
            "tier": chance.choice(("basic", "silver", "gold")),
        }
        yield json.dumps({**profile, "at": _text(at)})


_LINES = {
    "clicks": _clicks,
    "orders": _orders,
    "payments": _payments,
    "profiles": _profiles,
    MESSAGES: _visits,
}


def _time(chance: random.Random, number: int) -> datetime:
    """A time within the file's half hour: no row is late by itself."""
    return START + number * SPAN + timedelta(milliseconds=chance.randrange(int(SPAN.total_seconds() * 1000)))


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
