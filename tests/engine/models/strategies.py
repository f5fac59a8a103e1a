"""How the engine's property tests draw: few plans, since each takes seconds."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

from tests.conftest import LONG


def plans(count: int) -> settings:
    """So many plans, five times as many in a long run. A seed has nothing to shrink."""
    return settings(
        max_examples=5 * count if LONG else count,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
