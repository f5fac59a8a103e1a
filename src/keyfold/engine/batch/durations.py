"""How long something took in the newest batches."""

from __future__ import annotations

from typing import Final

_MOST: Final = 100


class Durations:
    """Seconds by batch, of the newest batches. One thread records them, others may read."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def record(self, batch: int, seconds: float) -> None:
        """Records one batch, and forgets the oldest one."""
        self._seconds[batch] = seconds
        while len(self._seconds) > _MOST:
            del self._seconds[min(self._seconds)]

    def of(self, batch: int) -> float | None:
        """The seconds of a batch; None if it was not recorded, or is too long ago."""
        return self._seconds.get(batch)
