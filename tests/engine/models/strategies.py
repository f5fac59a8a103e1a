"""How property tests of this room draw: the same plans in every run, and few, since each takes seconds."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def plans(count: int) -> settings:
    """So many plans. There is nothing to shrink in a seed, and batches are small already."""
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
