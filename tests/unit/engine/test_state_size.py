"""How partitions of some sizes are shared by cores."""

from __future__ import annotations

import pytest

from keyfold.engine.state.size import Spread


@pytest.mark.parametrize(
    ("sizes", "cores", "most"),
    [
        ((6, 2), 1, 8),
        ((6, 2), 2, 6),
        ((6, 2), 8, 6),
        # In their order, each to the core that is free first.
        ((1, 1, 6, 2), 2, 7),
        ((6, 1, 1, 2), 2, 6),
        ((0, 0), 2, 0),
    ],
)
def test_the_busiest_core(sizes: tuple[int, ...], cores: int, most: int) -> None:
    spread = Spread(len(sizes), max(sizes), sum(sizes) / len(sizes), sizes)
    assert spread.on_cores(cores) == most
