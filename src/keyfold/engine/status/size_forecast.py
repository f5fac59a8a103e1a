"""How fast a table grows, and when it reaches a bound, from what was recorded of its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from keyfold.read.trends import Sample, of_one_life

FEWEST: Final = 10
SHORTEST_SECONDS: Final = 600.0
_PAIRS: Final = 200
_FAR: Final = timedelta(days=3650)


@dataclass(frozen=True)
class Growth:
    """Growth per hour: the median over pairs of samples, and the range of four fifths of them."""

    now: int
    per_hour: float
    low: float
    high: float

    def hours_to(self, bound: int, per_hour: float) -> float | None:
        """The hours until the bound is reached at this growth; None: not within ten years."""
        if self.now >= bound:
            return 0.0
        hours = (bound - self.now) / per_hour if per_hour > 0 else float("inf")
        return hours if hours <= _FAR.total_seconds() / 3600 else None


@dataclass(frozen=True)
class Forecast:
    """What the recorded sizes of a table say; without `rows` and `bytes`, why they say nothing."""

    samples: int
    since: datetime | None
    until: datetime | None
    rows: Growth | None = None
    bytes: Growth | None = None
    too_little: str | None = None

    @property
    def hours(self) -> float:
        """How long was recorded."""
        return (self.until - self.since).total_seconds() / 3600 if self.since and self.until else 0.0


def forecast(recorded: Sequence[Sample]) -> Forecast:
    """The growth that samples show."""
    samples = of_one_life(recorded)
    if not samples:
        return Forecast(0, None, None, too_little="no size is recorded; a running app records one a minute")
    since, until = (datetime.fromtimestamp(one.at, UTC) for one in (samples[0], samples[-1]))
    seconds = samples[-1].at - samples[0].at
    found = Forecast(len(samples), since, until)
    if len(samples) < FEWEST or seconds < SHORTEST_SECONDS:
        few = f"{len(samples)} of at least {FEWEST} sizes are recorded"
        span = f"over {seconds / 60:.0f} of at least {SHORTEST_SECONDS / 60:.0f} minutes"
        return Forecast(found.samples, since, until, too_little=f"{few}, {span}")
    return Forecast(found.samples, since, until, _growth(samples, "rows"), _growth(samples, "bytes"))


def _growth(samples: Sequence[Sample], what: Literal["rows", "bytes"]) -> Growth | None:
    """The median of the slopes between samples that are far apart: single jumps and noise count little."""
    known = [(one.at, int(getattr(one, what))) for one in samples if getattr(one, what) is not None]
    if len(known) < FEWEST:
        return None
    step = max(1, len(known) // _PAIRS)
    some = known[::-step][::-1]
    apart = (some[-1][0] - some[0][0]) / 3
    slopes = sorted(
        (later - earlier) / (then - first) * 3600
        for n, (first, earlier) in enumerate(some)
        for then, later in some[n + 1 :]
        if then - first >= apart and then > first
    )
    if not slopes:
        return None
    low, middle, high = (slopes[round(share * (len(slopes) - 1))] for share in (0.1, 0.5, 0.9))
    return Growth(known[-1][1], middle, low, high)
