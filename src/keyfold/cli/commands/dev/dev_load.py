"""`keyfold dev load`: sends generated orders to a topic."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from keyfold.cli.options import For, Json, seconds_of


def command(
    servers: Annotated[str, typer.Argument(metavar="SERVERS", help="The broker's address, host:port.")],
    topic: Annotated[
        str,
        typer.Option("--topic", metavar="NAME[:PARTITIONS]", help="Created if it does not exist."),
    ] = "orders",
    rate: Annotated[
        float,
        typer.Option("--rate", metavar="N", min=0, help="Orders per second; 0 for as many as possible."),
    ] = 1_000,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", min=1, help="Stop after this many orders.", show_default=False),
    ] = None,
    for_: For = None,
    keys: Annotated[int, typer.Option("--keys", metavar="N", min=1, help="How many customers.")] = 10_000,
    skew: Annotated[
        float,
        typer.Option(
            "--skew",
            metavar="S",
            min=0,
            help="0: all order equally often. 1: the n-th customer 1/n as often.",
        ),
    ] = 1.0,
    late: Annotated[
        float, typer.Option("--late", metavar="SHARE", min=0, max=1, help="Share of orders that are late.")
    ] = 0.01,
    late_by: Annotated[
        str, typer.Option("--late-by", metavar="TIME", help="How late they are at most.")
    ] = "30 minutes",
    bad: Annotated[
        float, typer.Option("--bad", metavar="SHARE", min=0, max=1, help="Share of malformed messages.")
    ] = 0.001,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Makes a run reproducible.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Send generated orders to a topic until Ctrl-C.

    Messages are JSON; the key is the customer. Some customers order far more than others, some orders are
    late, and some messages are malformed. The columns: id string, customer string, region string,
    product string, amount double, at timestamp.

    Example: keyfold dev load 127.0.0.1:9092 --topic orders:4 --rate 5000 --for 1m
    """
    from datetime import timedelta

    from keyfold.cli import output
    from keyfold.cli.running.signals import Stopping
    from keyfold.demo.load import Load
    from keyfold.engine.kafka import listening, topics
    from keyfold.plan import durations
    from keyfold.plan.validate.kafka_topics import checked_servers

    name, partitions = topics.parse_topic(topic)
    servers = checked_servers(servers, None)
    lag = timedelta(milliseconds=durations.millis(late_by, "--late-by"))
    load = Load(rate, keys, skew, late, lag, bad, seed)
    with Stopping() as stopping:
        hint = f"is a Kafka broker at {servers}? `keyfold dev kafka` starts one"
        listening.require(servers, name, hint)
        topics.create(servers, name, partitions)
        stopping.up()
        output.say(f"sending orders to {name} at {servers}")
        found = _send(servers, name, load, count, seconds_of(for_), stopping.asked.is_set)
    if json:
        output.json_document({"topic": name, **found})
    else:
        told = ", ".join(f"{found[kind]:,} {kind}" for kind in ("good", "late", "bad"))
        print(f"{sum(found[kind] for kind in ('good', 'late', 'bad')):,} sent to {name}: {told}")


def _send(
    servers: str, topic: str, load: Any, count: int | None, seconds: float | None, asked: Any
) -> dict[str, Any]:
    """Sends until the end; how many of each kind were delivered."""
    import itertools

    from keyfold.demo.load import messages, pace
    from keyfold.engine.kafka.sending import Sender

    begun = time.monotonic()

    def over() -> bool:
        return bool(asked()) or (seconds is not None and time.monotonic() - begun > seconds)

    kinds = {"good": 0, "late": 0, "bad": 0}
    with Sender(servers) as sender:
        for message in itertools.islice(pace(messages(load), load.rate, over), count):
            sender.send(topic, message.key, message.value)
            kinds[message.kind] += 1
    return {**kinds, "seconds": round(time.monotonic() - begun, 3)}
