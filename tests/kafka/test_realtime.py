"""Real-time mode: changes are sent while their batch runs; state, log and view agree after crashes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

import keyfold as kf
from keyfold.engine.polling import wait_until
from keyfold.errors import RunError
from keyfold.fault_points import FaultPoint, handled_by
from tests.kafka.cluster import Cluster

pytestmark = pytest.mark.jvm

SECONDS = 120.0
# Long enough for a machine under load to start the tasks of a batch before it ends.
EVERY = "3 seconds"


class Crash(Exception):
    """Ends a query between two steps, as a crash would."""


def told(message: Message) -> tuple[str, str, Any]:
    """Key, operation and row of a message."""
    headers = dict(message.headers())
    value = None if message.value() is None else json.loads(message.value())
    return message.key().decode(), headers["_op"].decode(), value


def shop(cluster: Cluster, orders: str, totals: str, **options: Any) -> kf.App:
    app = kf.App("shop", every=EVERY)
    stream = app.stream("orders", kf.kafka(cluster.address, topic=orders), schema="region string, amount int")
    given = {"latency": "realtime", "partitions": 1, **options}
    table = (
        stream.where("amount > 0").by("region").table("totals", n="count(*)", total="sum(amount)", **given)
    )
    table.to(kf.kafka(cluster.address, topic=totals, delivery="at_least_once"))
    return app


def view(handle: kf.Handle, table: str) -> list[dict[str, Any]]:
    rows = handle.table(table).rows()
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


def test_changes_are_sent_at_once_and_the_table_alternates_between_the_modes(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    orders, totals = cluster.topic("rt-orders"), cluster.topic("rt-totals")
    order = {"region": "eu", "amount": 2}
    with pytest.raises(RunError, match="need 3 task slots at the same time, and there are 2"):
        shop(cluster, orders, totals, partitions=2).start(spark=spark, home=tmp_path / "other")

    fast = shop(cluster, orders, totals)
    with fast.start(spark=spark, home=tmp_path) as handle:
        cluster.produce(orders, [order, "no JSON", order, {"region": "eu", "amount": 0}])
        assert wait_until(lambda: cluster.end(totals) == 2, SECONDS)
        handle.drain()
        assert view(handle, "totals") == [{"region": "eu", "n": 2, "total": 4}]
        assert [row["raw"] for row in handle.rejected("totals")] == ["no JSON"]
    sent = cluster.consume(totals)
    assert [told(m) for m in sent] == [
        ("eu", "upsert", {"region": "eu", "n": n, "total": 2 * n}) for n in (1, 2)
    ]
    headers = {name: value.decode() for name, value in sent[0].headers()}
    assert (headers["_table"], headers["_key"], headers["_watermark"]) == ("shop.totals", "region", "")
    assert headers["_attempt"]
    assert int(headers["_batch"]) >= 0

    def crash(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.BATCH_PUBLISHED and cluster.end(orders) == 6:
            raise Crash

    slow = shop(cluster, orders, totals, latency=None)
    with handled_by(crash), slow.start(spark=spark, home=tmp_path) as handle:
        cluster.produce(orders, [order])
        handle.drain()
        assert view(handle, "totals") == [{"region": "eu", "n": 3, "total": 6}]
        cluster.produce(orders, [order])
        with pytest.raises(RunError):  # the batch is published, and not committed
            handle.drain()

    with fast.start(spark=spark, home=tmp_path) as handle:
        cluster.produce(orders, [order])
        handle.drain()
        assert view(handle, "totals") == [{"region": "eu", "n": 5, "total": 10}]
    assert [told(m)[2]["n"] for m in cluster.consume(totals)] == [1, 2, 3, 4, 5]
    assert [c["n"] for c in kf.read_changes(cluster.address, totals)] == [1, 2, 3, 4, 5]


def test_a_batch_that_was_interrupted_counts_once_and_a_key_expires(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    visits, seen = cluster.topic("rt-visits"), cluster.topic("rt-seen")

    def web(latency: Any) -> kf.App:
        app = kf.App("web", every=EVERY)
        source = kf.kafka(cluster.address, topic=visits)
        stream = app.stream("visits", source, schema="who string, at timestamp", time="at")
        table = stream.by("who").table("seen", n="count(*)", ttl="10 minutes", latency=latency, partitions=1)
        table.to(kf.kafka(cluster.address, topic=seen, delivery="at_least_once"))
        return app

    def at(minute: int, who: str) -> dict[str, str]:
        return {"who": who, "at": f"2026-05-01T00:{minute:02d}:00Z"}

    cluster.produce(visits, [at(0, "a"), at(1, "b"), at(2, "b")])
    for point in (FaultPoint.PARTS_WRITTEN, FaultPoint.BATCH_DONE):
        before = cluster.end(seen)

        def crash(reached: FaultPoint, _: Any, at: FaultPoint = point, sent: int = before) -> None:
            if reached == at and cluster.end(seen) > sent:
                raise Crash

        with handled_by(crash), web("realtime").start(spark=spark, home=tmp_path) as handle:
            with pytest.raises(RunError):
                handle.drain()
            hook = handle.hooks["seen"]
        assert hook.log.newest() == hook.home.committed_batch(), (
            "nothing of the interrupted batch is published"
        )
    with web(None).start(spark=spark, home=tmp_path) as handle:
        handle.drain()
        assert {row["who"]: row["n"] for row in view(handle, "seen")} == {"a": 1, "b": 2}
    with web("realtime").start(spark=spark, home=tmp_path) as handle:
        handle.drain()
        assert {row["who"]: row["n"] for row in view(handle, "seen")} == {"a": 1, "b": 2}
        cluster.produce(visits, [at(11, "b")])
        assert wait_until(
            lambda: [told(m) for m in cluster.consume(seen)][-1] == ("a", "delete", None), SECONDS
        )
        assert wait_until(lambda: view(handle, "seen") == [{"who": "b", "n": 3}], SECONDS)
    sent = [(who, op, row and row["n"]) for who, op, row in map(told, cluster.consume(seen))]
    assert set(sent) <= {("a", "upsert", 1), *(("b", "upsert", n) for n in (1, 2, 3)), ("a", "delete", None)}
    assert len(sent) > len(set(sent)), "what an interrupted batch had sent is sent again"


def test_windows_close_and_late_rows_are_kept(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    clicks, minutes = cluster.topic("rt-clicks"), cluster.topic("rt-minutes")
    app = kf.App("clicks", every=EVERY)
    source = kf.kafka(cluster.address, topic=clicks)
    stream = app.stream("clicks", source, schema="page string, at timestamp", time="at")
    windows = stream.by("page").tumbling("1 minute")
    table = windows.table("minutes", n="count(*)", latency="realtime", partitions=1)
    table.to(kf.kafka(cluster.address, topic=minutes, delivery="at_least_once"))

    def at(minute: int, second: int = 0) -> dict[str, str]:
        return {"page": "/", "at": f"2026-05-01T00:{minute:02d}:{second:02d}Z"}

    def closed() -> list[int]:
        return [row["n"] for _, op, row in map(told, cluster.consume(minutes)) if op == "final"]

    with app.start(spark=spark, home=tmp_path) as handle:
        cluster.produce(clicks, [at(0), at(0, 30), at(2)])
        assert wait_until(lambda: closed() == [2], SECONDS)
        cluster.produce(clicks, [at(0, 40), at(2, 1)])
        handle.drain()
        assert [row["time"].minute for row in handle.late("minutes")] == [0]
        assert {row["window_start"].minute: row["n"] for row in view(handle, "minutes")} == {0: 2, 2: 2}
        batch = handle.savepoint("first")["tables"]["minutes"]
    taken = tmp_path / "clicks" / "savepoints" / "first"
    assert [file.parent.name for file in taken.rglob(f"{batch}*") if file.is_file()].count("commits") == 1
    assert len(list(taken.rglob(f"log/{batch}.json"))) == 1, "what it has committed is published"
    assert list(taken.rglob(f"log/{batch + 1}.json")) == []


APP = """
import keyfold as kf

app = kf.App("shop", every="3 seconds")
orders = app.stream("orders", kf.kafka("{address}", topic="{orders}"), schema="region string, amount int")
totals = orders.where("amount > 0").by("region").table(
    "totals", n="count(*)", total="sum(amount)", latency="realtime", partitions=1
)
totals.to(kf.kafka("{address}", topic="{totals}", delivery="at_least_once"))
"""


def test_state_log_view_and_topic_agree_after_a_kill(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    orders, totals = cluster.topic("rt-kill-orders"), cluster.topic("rt-kill-totals", partitions=2)
    chance = random.Random(5)
    sent = [{"region": f"r{chance.randrange(7)}", "amount": 1 + chance.randrange(100)} for _ in range(2_000)]
    file = tmp_path / "shop.py"
    file.write_text(APP.format(address=cluster.address, orders=orders, totals=totals))
    options = ["--home", str(tmp_path / "home"), "--master", "local[2]"]
    command = [sys.executable, "-m", "keyfold", "run", str(file), *options]

    cluster.produce(orders, sent[:1_000])
    with (tmp_path / "log").open("wb") as log:
        killed = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        # Wherever in a batch, or between two, it is just then.
        seen = wait_until(lambda: cluster.end(totals) + cluster.end(totals, 1) >= 1_000, SECONDS, pause=0.1)
        assert seen, (tmp_path / "log").read_text()
    finally:
        killed.kill()
        killed.wait()
    cluster.produce(orders, sent[1_000:])
    app = shop(cluster, orders, totals)
    with app.start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
        rows = view(handle, "totals")
    counts, sums = Counter(row["region"] for row in sent), Counter[str]()
    for row in sent:
        sums[row["region"]] += row["amount"]
    expected = {region: {"region": region, "n": counts[region], "total": sums[region]} for region in counts}
    assert {row["region"]: row for row in rows} == expected
    assert {key: row for key, _, row in map(told, cluster.consume(totals))} == expected
