"""From topic to topic through kill -9: every change once, and the same totals as a recount."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from keyfold.engine.polling import wait_until
from tests.kafka.cluster import Cluster

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf

app = kf.App("shop")
orders = app.stream(
    "orders",
    kf.kafka("{address}", topic="{orders}", options={{"maxOffsetsPerTrigger": "300"}}),
    schema="region string, amount int",
)
totals = orders.by("region").table("totals", n="count(*)", total="sum(amount)")
totals.to(kf.kafka("{address}", topic="{totals}"))
"""


def test_totals_of_a_killed_app_are_in_the_topic_once(cluster: Cluster, tmp_path: Path) -> None:
    orders, totals = cluster.topic("kill-orders", partitions=2), cluster.topic("kill-totals", partitions=2)
    chance = random.Random(5)
    sent = [{"region": f"r{chance.randrange(7)}", "amount": chance.randrange(100)} for _ in range(6_000)]
    cluster.produce(orders, sent)
    app = tmp_path / "shop.py"
    app.write_text(APP.format(address=cluster.address, orders=orders, totals=totals))
    command = [sys.executable, "-m", "keyfold", "run", str(app), "--home", str(tmp_path / "home")]

    with (tmp_path / "log").open("wb") as log:
        killed = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        # Between the third batch and the last, wherever the sink is just then.
        seen = wait_until(lambda: cluster.end(totals) + cluster.end(totals, 1) > 30, 120, pause=0.1)
        assert seen, (tmp_path / "log").read_text()
    finally:
        killed.kill()
        killed.wait()
    before = len(cluster.consume(totals))
    done = subprocess.run([*command, "--drain"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    messages = cluster.consume(totals)
    assert 0 < before < len(messages)
    counts: dict[str, list[int]] = {}
    newest: dict[str, tuple[int, int]] = {}
    for message in messages:
        row = json.loads(message.value())
        counts.setdefault(row["region"], []).append(row["n"])
        newest[row["region"]] = row["n"], row["total"]
    assert all(found == sorted(set(found)) for found in counts.values()), "in order, none twice"
    expected = Counter(row["region"] for row in sent)
    sums: Counter[str] = Counter()
    for row in sent:
        sums[row["region"]] += row["amount"]
    assert newest == {region: (expected[region], sums[region]) for region in expected}
