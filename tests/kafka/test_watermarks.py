"""The watermark of a topic is that of its slowest partition; and outages of brokers pass."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.kafka.broker import Broker
from keyfold.engine.polling import wait_until
from keyfold.settings import load
from tests.kafka.cluster import FAST, Cluster
from tests.kafka.test_source import SCHEMA, crashed, order, started

pytestmark = pytest.mark.jvm


def at(partition: int, minute: int, second: int = 0) -> dict[str, Any]:
    return order("a", at=f"2026-05-01T00:{minute:02d}:{second:02d}Z", partition=partition)


def moment(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 5, 1, 0, minute, second, tzinfo=UTC)


@pytest.mark.parametrize("shared", [False, True], ids=["direct", "shared"])
def test_a_fast_partition_makes_no_slow_one_late_also_after_a_restart_until_that_is_idle(
    spark: Any, cluster: Cluster, tmp_path: Path, shared: bool
) -> None:
    topic = cluster.topic(partitions=3)
    app = kf.App("partitions")
    source = kf.kafka(cluster.address, topic=topic)
    orders = app.stream("orders", source, schema=SCHEMA, time="at", shared=shared)
    orders.by("id").tumbling("1 minute").table("minutes", n="count(*)")
    orders.by("id").tumbling("1 minute").table("impatient", n="count(*)", idle="4 seconds")
    # The third partition is silent.
    cluster.produce(topic, [at(0, 0, 5), at(0, 9), at(1, 0, 6)])

    def counted() -> dict[int, int]:
        return {r["window_start"].minute: r["n"] for r in handle.table("minutes").rows()}

    with started(app, spark, tmp_path) as handle:
        assert ("orders" in handle.queries) == shared
        held = handle.status()["tables"]["minutes"]["watermark_held_by"]
        assert (held["stream"], held["partition"], held["newest"]) == ("orders", f"{topic}-1", moment(0, 6))
        assert (datetime.now(UTC) - held["since"]).total_seconds() < 600
        cluster.produce(topic, [at(0, 20)])
        handle.drain()
        cluster.produce(topic, [at(1, 0, 7)])
        handle.drain()
        assert counted() == {0: 3, 9: 1, 20: 1}
        assert handle.status()["tables"]["minutes"]["watermark"] <= moment(0, 7)
        crashed(handle)

    with started(app, spark, tmp_path) as handle:
        cluster.produce(topic, [at(0, 30)])
        handle.drain()
        cluster.produce(topic, [at(1, 0, 8)])
        handle.drain()
        assert counted()[0] == 4, "what the slow partition had reached was not forgotten"
        assert handle.late("minutes") == []
        assert handle.status()["tables"]["minutes"]["watermark_held_by"]["newest"] == moment(0, 8)

        def let_go() -> bool:
            cluster.produce(topic, [at(0, 40)])
            handle.drain()
            table = handle.status()["tables"]["impatient"]
            held = table["watermark_held_by"]
            slow = (held["partition"], held["idle"]) == (f"{topic}-0", [f"{topic}-1"])
            return bool(slow and table["watermark"] >= moment(30))

        assert wait_until(let_go, 60)
        assert handle.status()["tables"]["minutes"]["watermark"] <= moment(0, 8), "without idle= it waits"
        cluster.produce(topic, [at(1, 1)])
        handle.drain()
        assert [row["time"] for row in handle.late("impatient")][-1] == moment(1)
        assert handle.late("minutes") == []


def test_a_query_survives_brokers_that_are_away_and_misses_nothing(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = {
        "kafka.request.timeout.ms": 1000,
        "kafka.default.api.timeout.ms": 2000,
        "fetchOffset.numRetries": 1,
        "fetchOffset.retryIntervalMs": 10,
    }
    with Broker(tmp_path / "broker", load(), java_options=FAST) as broker:
        cluster = Cluster(broker.address)
        topic = cluster.topic()
        app = kf.App("outage")
        source = kf.kafka(broker.address, topic=topic, options=impatient)
        app.stream("orders", source, schema=SCHEMA).by("id").table("counts", n="count(*)")
        cluster.produce(topic, [order("a")] * 3)
        with started(app, spark, tmp_path / "home") as handle, caplog.at_level(logging.WARNING, "keyfold"):
            broker.stop()
            assert wait_until(lambda: "brokers can't be reached" in caplog.text, 60)
            assert handle.status()["failures"] == []
            broker.start()
            cluster.produce(topic, [order("a")] * 4)

            def complete() -> bool:
                handle.drain()
                return bool(handle.table("counts").get("a")["n"] == 7)

            assert wait_until(complete, 60)
