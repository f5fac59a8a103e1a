"""The example from topic to topic."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from tests.kafka.cluster import Cluster
from tests.kafka.test_source import started

pytestmark = pytest.mark.jvm

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kafka_fraud.py"


def test_tested_cards_become_alerts_in_the_other_topic(
    spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", cluster.address)
    cluster.create("payments", 4)
    cluster.create("alerts")
    example = runpy.run_path(str(EXAMPLE))
    example["load"]()
    with started(example["app"], spark, tmp_path) as handle:
        found = {row["card"]: (row["probes"], row["lost"]) for row in handle.table("card_testing").rows()}
        assert len(handle.rejected("card_testing")) == 3
        assert len({row["partition"] for row in handle.rejected("payments")}) == 1
    expected = {f"card-{n}": (3, 500.0) for n in range(10)}
    assert found == expected
    sent = {c["card"]: (c["probes"], c["lost"]) for c in kf.read_changes(cluster.address, "alerts")}
    assert sent == expected
