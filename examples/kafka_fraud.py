"""Card testing, from a topic of payments to a topic of alerts.

    $ keyfold dev kafka --port 9092 --topic payments:4 --topic alerts &
    $ python examples/kafka_fraud.py load
    $ keyfold run examples/kafka_fraud.py --drain
    $ keyfold rows kafka_fraud.card_testing
    $ python examples/kafka_fraud.py alerts

`load` sends payments of a thousand cards, ten of which are tested with small payments and then charged, and
some messages that are no payments: `keyfold side show rejected kafka_fraud.card_testing` lists those. The
servers are those of the environment's KAFKA, or 127.0.0.1:9092.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import keyfold as kf

SERVERS = os.environ.get("KAFKA", "127.0.0.1:9092")

app = kf.App("kafka_fraud", help="Fraud in payments, as they arrive")

payments = app.stream(
    "payments",
    kf.kafka(SERVERS, topic="payments", metadata=["partition", "offset"]),
    schema="card string, amount double, at timestamp",
    time="at",
    late="1 minute",
    help="one message per payment, keyed by card",
)

# A thief tests a card with small payments, then charges a large amount.
probe = kf.step("probe", "amount < 2", times=(3, None))
strike = kf.step("strike", "amount > 100 and amount > 200 * array_avg(probe.amount)")

alerts = payments.by("card").pattern(
    "card_testing",
    probe >> strike,
    within="10 minutes",
    returns={"probes": "size(probe)", "lost": "strike[0].amount", "message": "strike[0].kafka_offset"},
    help="small payments, then a large one",
)
alerts.to(kf.kafka(SERVERS, topic="alerts"))


def generated(cards: int = 1000, tested: int = 10) -> Iterator[dict[str, Any]]:
    """Payments of an hour in the order of their times; the first cards are the tested ones."""
    chance, begin = random.Random(7), datetime(2026, 5, 1, 12, tzinfo=UTC)
    found: list[dict[str, Any]] = [
        {"card": f"card-{card}", "amount": chance.uniform(5, 90), "at": begin + timedelta(seconds=second)}
        for card in range(cards)
        for second in chance.sample(range(3600), 5)
    ]
    for card in range(tested):
        start = begin + timedelta(seconds=4000 + card)
        for probe in range(3):
            found.append({"card": f"card-{card}", "amount": 1.0, "at": start + timedelta(seconds=probe)})
        found.append({"card": f"card-{card}", "amount": 500.0, "at": start + timedelta(minutes=1)})
    # The last payment of each card lets the watermark pass the others in its partition.
    for card in range(cards):
        found.append({"card": f"card-{card}", "amount": 9.0, "at": begin + timedelta(hours=3)})
    return iter(sorted(found, key=lambda payment: payment["at"]))


def load() -> None:
    """Sends the payments, and a few messages that are none."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": SERVERS})
    for payment in generated():
        value = json.dumps({**payment, "at": payment["at"].isoformat()})
        producer.produce("payments", value.encode(), key=payment["card"])
        producer.poll(0)
    for broken in (b"{", b"\xff\xfe", b'{"card": "card-1", "amount": "much"}'):
        producer.produce("payments", broken, key="broken")
    producer.flush()


def main() -> None:
    """`load` or `alerts`."""
    if sys.argv[1:] == ["load"]:
        load()
    elif sys.argv[1:] == ["alerts"]:
        for change in kf.read_changes(SERVERS, "alerts"):
            print(change["card"], change["probes"], change["lost"])
    else:
        sys.exit("python examples/kafka_fraud.py load | alerts")


if __name__ == "__main__":
    main()
