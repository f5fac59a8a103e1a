"""A table on a topic that begins with files: the topic continues where they end, each row counts once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from tests.kafka.cluster import Cluster
from tests.kafka.test_source import SCHEMA, order, started

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("shared", [False, True], ids=["direct", "shared"])
def test_a_topic_goes_on_where_the_files_end(
    spark: Any, cluster: Cluster, tmp_path: Path, shared: bool
) -> None:
    topic = cluster.topic(partitions=2)
    found = [order("ab"[i % 2], at=f"2026-05-01T00:{i:02d}:00Z", partition=i % 2) for i in range(30)]
    values = [json.loads(one["value"]) for one in found]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.json").write_text("".join(json.dumps(one) + "\n" for one in values[:20]))
    app = kf.App("begun")
    orders = app.stream(
        "orders", kf.kafka(cluster.address, topic=topic), schema=SCHEMA, time="at", shared=shared
    )
    history = kf.files(tmp_path / "old")
    orders.by("id").table("totals", n="count(*)", initial=history)
    orders.by("id").tumbling("10 minutes").table("tens", n="count(*)", initial=history)
    # The topic still has the end of what is in the files.
    cluster.produce(topic, found[15:25])
    with started(app, spark, tmp_path / "home") as handle:
        handle.drain()
        cluster.produce(topic, found[25:])
        handle.drain()
        rows = {row["id"]: row["n"] for row in handle.table("totals").rows()}
        tens = {(row["id"], row["window_start"].minute): row["n"] for row in handle.table("tens").rows()}
        assert len(handle.rejected("totals")) == 5
        assert handle.late("tens") == []
    assert rows == Counter(one["id"] for one in values)
    assert tens == Counter((one["id"], int(one["at"][14:15]) * 10) for one in values)
