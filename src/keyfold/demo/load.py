"""Generates orders for a topic: unevenly over customers, some of them late, some malformed."""

from __future__ import annotations

import bisect
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from keyfold.demo.generate import PRODUCTS, REGIONS

Kind = Literal["good", "late", "bad"]
_SLICE_SECONDS: Final = 0.02
_FAST_SLICE: Final = 1_000


@dataclass(frozen=True)
class Load:
    """How much, and of which kind. `skew`: 0 treats all customers alike; with 1 the n-th orders 1/n as often.

    `late` and `bad` are shares of the orders; a late one is up to `late_by` old.
    """

    rate: float = 1_000.0
    keys: int = 10_000
    skew: float = 1.0
    late: float = 0.01
    late_by: timedelta = timedelta(minutes=30)
    bad: float = 0.001
    seed: int | None = None


@dataclass(frozen=True)
class Message:
    """One order as it is sent."""

    key: bytes
    value: bytes
    kind: Kind


def messages(load: Load, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Iterator[Message]:
    """Orders without end; the same seed and times generate the same orders."""
    chance = random.Random(load.seed)
    shares = list(itertools.accumulate(1 / rank**load.skew for rank in range(1, load.keys + 1)))
    for number in itertools.count():
        customer = f"c{bisect.bisect_left(shares, chance.random() * shares[-1])}"
        kind = _kind(chance.random(), load)
        at = now() - (load.late_by * chance.random() if kind == "late" else timedelta(0))
        row: dict[str, Any] = {
            "id": f"o{number}",
            "customer": customer,
            "region": chance.choices(REGIONS, weights=(5, 3, 2, 1))[0],
            "product": chance.choice(PRODUCTS),
            "amount": round(chance.lognormvariate(3, 1), 2),
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        value = _malform(row, number) if kind == "bad" else json.dumps(row).encode()
        yield Message(customer.encode(), value, kind)


def _kind(drawn: float, load: Load) -> Kind:
    return "bad" if drawn < load.bad else "late" if drawn < load.bad + load.late else "good"


def _malform(row: dict[str, Any], number: int) -> bytes:
    """Cut off, of a wrong type, and no text at all, in turn."""
    whole = json.dumps(row).encode()
    return (whole[: len(whole) // 2], json.dumps({**row, "amount": "a lot"}).encode(), b"\xff\xfe\x00")[
        number % 3
    ]


def pace(found: Iterator[Message], rate: float, over: Callable[[], bool]) -> Iterator[Message]:
    """The messages at a rate per second, or as fast as they are taken if it is 0, until `over`."""
    begun, sent = time.monotonic(), 0
    while not over():
        # What is due since the beginning: a pause is made up for.
        due = _FAST_SLICE if not rate else int((time.monotonic() - begun) * rate) - sent
        yield from itertools.islice(found, due)
        sent += due
        if rate and not over():
            time.sleep(_SLICE_SECONDS)
