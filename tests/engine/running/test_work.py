"""What a query has done in all runs, as its status says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import keyfold as kf
from keyfold.engine.polling import wait_until
from keyfold.testing import drive

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


def test_rows_and_seconds_go_on_after_a_restart() -> None:
    app = kf.App("work")
    orders = app.stream("orders", kf.rows([]), "region string, at timestamp", time="at")
    orders.by("region").tumbling("1 minute").table("totals", n="count(*)")
    with drive(app) as d:

        def totals(rows: int) -> dict[str, Any]:
            """The status once Spark has reported the last batch, which it does after the batch."""
            found: list[dict[str, Any]] = []

            def reported() -> bool:
                found.append(d.handle.status()["tables"]["totals"])
                return bool(found[-1]["rows"] == rows)

            assert wait_until(reported, 60)
            return found[-1]

        d.push("orders", [{"region": "eu", "at": "2026-01-01T12:00:00Z"}] * 3)
        first = totals(3)
        assert first["all_runs"]["rows"] == 3
        # The next batch, without rows, has the watermark after it.
        assert 0 < first["latency_seconds"] <= first["at"].timestamp() - NOON
        phases = first["all_runs"]["phases"]
        assert phases.keys() == {"offsets", "plan", "fold", "commit", "other"}
        assert first["all_runs"]["seconds"] == round(sum(phases.values()), 3)
        d.restart()
        d.push("orders", [{"region": "eu", "at": "2026-01-01T12:00:01Z"}] * 2)
        second = totals(2)
        assert second["all_runs"]["rows"] == 5
        assert second["all_runs"]["seconds"] > first["all_runs"]["seconds"]
