"""`RateLimit`: how many requests somebody may send, as a bucket that fills up again."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

_MOST: Final = 10_000
"""How many senders are known at once; the one not seen for longest is forgotten."""
_BURST_SECONDS: Final = 2.0


class RateLimit:
    """Counts requests by sender. Used from one event loop alone."""

    def __init__(self, per_second: float | None) -> None:
        self._rate = per_second
        self._most = max(1.0, (per_second or 0) * _BURST_SECONDS)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, sender: str) -> bool:
        """Whether one more request is within the limit."""
        if self._rate is None:
            return True
        now = time.monotonic()
        left, at = self._left.pop(sender, (self._most, now))
        left = min(self._most, left + (now - at) * self._rate)
        taken = left >= 1
        self._left[sender] = (left - 1 if taken else left, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return taken
