"""`history=kf.kafka(...)`: a compacted topic from which a table can be read anywhere."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

import keyfold as kf
from keyfold.errors import BadOption, RunError
from keyfold.fault_points import FaultPoint, handled_by
from tests.kafka.cluster import Cluster
from tests.kafka.test_sink import Crash, Feed, feed

__all__ = ["feed"]
pytestmark = pytest.mark.jvm


def visits(feed: Feed, address: str, topic: str) -> kf.App:
    """A table with upserts and deletes: its keys expire."""
    app = kf.App("web")
    rows = app.stream(
        "clicks", kf.files(str(feed.directory)), "who string, page int, at timestamp", time="at"
    )
    history = kf.kafka(address, topic=topic)
    rows.by("who", "page").table("visits", n="count(*)", last="max(at)", ttl="2 hours", history=history)
    return app


def test_a_table_from_events_and_from_its_topic_are_equal(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic, chance = "visits-history", random.Random(4)
    app = visits(feed, cluster.address, topic)
    for restart in range(2):
        with app.start(spark=spark, home=tmp_path / "home") as handle:
            for hour in range(4):
                at = f"2026-01-01T{restart * 5 + hour:02d}:{chance.randrange(60):02d}:00Z"
                feed.put(
                    *(
                        {"who": f"w{chance.randrange(9)}", "page": chance.randrange(3), "at": at}
                        for _ in range(9)
                    )
                )
                handle.drain()
            rows = {
                (r["who"], r["page"]): (r["n"], r["last"].isoformat()) for r in handle.table("visits").rows()
            }
    admin, resource = cluster.admin(), ConfigResource("topic", topic)
    assert admin.describe_configs([resource])[resource].result()["cleanup.policy"].value == "compact"
    read = kf.read_table(cluster.address, topic)
    assert {(r["who"], r["page"]): (r["n"], r["last"].replace(".000000Z", "+00:00")) for r in read} == rows
    changes = list(kf.read_changes(cluster.address, topic))
    assert {"upsert", "delete"} == {change["_op"] for change in changes}
    assert all({"who", "page"} <= change.keys() for change in changes), "also of deletes"
    assert changes[-1]["_watermark"] is not None

    events = kf.App("again")
    rows_again = events.stream(
        "clicks", kf.files(str(feed.directory)), "who string, page int, at timestamp", time="at"
    )
    rows_again.by("who", "page").table("visits", n="count(*)", last="max(at)")
    with events.start(spark=spark, home=tmp_path / "again") as handle:
        handle.drain()
        unexpired = {(r["who"], r["page"]) for r in handle.table("visits").rows()}
    assert {(r["who"], r["page"]) for r in read} < unexpired, "what expired is gone from the topic too"


def read_back(cluster: Cluster, topic: str) -> dict[Any, Any]:
    found = kf.read_table(cluster.address, topic)
    return {(r["who"], r["page"]): (r["n"], r["last"].replace(".000000Z", "+00:00")) for r in found}


def test_a_topic_whose_table_has_a_past_begins_with_a_snapshot(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic, home = "visits-late", tmp_path / "home"
    with_topic = visits(feed, cluster.address, topic)
    without = kf.App("web")
    rows = without.stream(
        "clicks", kf.files(str(feed.directory)), "who string, page int, at timestamp", time="at"
    )
    rows.by("who", "page").table("visits", n="count(*)", last="max(at)", ttl="2 hours")

    def clicks(hour: int, *who: str) -> None:
        feed.put(*({"who": one, "page": 1, "at": f"2026-01-01T{hour:02d}:00:00Z"} for one in who))

    def run(app: kf.App, **settings: Any) -> dict[Any, Any]:
        with app.start(spark=spark, home=home, **settings) as handle:
            handle.drain()
            rows = [] if settings else handle.table("visits").rows()
        return {(r["who"], r["page"]): (r["n"], r["last"].isoformat()) for r in rows}

    # Without views and sinks nobody reads the log: it counts changes, and does not have them.
    clicks(1, "a", "b")
    run(without, views="none")
    clicks(2, "b", "c")
    reach = []

    def crash(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.SINK_WRITTEN:
            reach.append(facts["batch"])
            raise Crash

    with handled_by(crash), pytest.raises(Crash):
        run(with_topic)
    assert len(reach) == 1, "the snapshot was written, and its position not recorded"
    now = run(with_topic)
    assert sorted(who for who, _ in now) == ["a", "b", "c"]
    assert read_back(cluster, topic) == now
    found = [(c["_batch"] > reach[0], c["who"], c["n"]) for c in kf.read_changes(cluster.address, topic)]
    assert sorted(found) == [(False, "a", 1), (False, "b", 1), (True, "b", 2), (True, "c", 1)], "each once"

    # The topic misses that a and b expire; c changes, d is new.
    clicks(4, "c")
    clicks(5, "d")
    run(without, views="none")
    clicks(5, "e")
    now = run(with_topic)
    assert sorted(who for who, _ in now) == ["c", "d", "e"]
    assert read_back(cluster, topic) == now
    deleted = {c["who"] for c in kf.read_changes(cluster.address, topic) if c["_op"] == "delete"}
    assert deleted == {"a", "b"}


def test_a_topic_that_would_lack_rows_is_refused(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic = cluster.topic("deleted", cleanup_policy="delete")
    with pytest.raises(RunError, match="is not compacted"):
        visits(feed, cluster.address, topic).start(spark=spark, home=tmp_path / "a")
    with pytest.raises(BadOption, match="history must be a duration or a Kafka topic"):
        kf.App("a").stream("s", kf.rows([]), "k int").by("k").table("t", n="count(*)", history=kf.files("x"))
