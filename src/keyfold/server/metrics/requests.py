"""The metrics of the server itself: how long requests take, and who follows changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

REASONS: Final = ("left", "slow", "closed", "failed")
"""Why a feed ended: its reader left, took nothing any more, was sent `closed`; or reading the log failed."""
OTHER: Final = "other"
_BY_ROUTE: Final = ("route", "method", "status")
_BY_REASON: Final = ("reason",)
_METHODS: Final = frozenset(("GET", "HEAD", "POST"))
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServerMetrics(Collector):
    """Counts and times what this server does; they begin with the server's process."""

    def __init__(self) -> None:
        # No registry has them: it would show when each was created, as a metric of its own.
        self._durations = Histogram(
            "keyfold_http_request_duration_seconds",
            "Requests by route, method and status, from the head of the request to the end of the answer. "
            f"Requests without a route, such as those for the console, have the route {OTHER!r}. Change "
            "feeds are not among them, unless they were refused.",
            _BY_ROUTE,
            buckets=_BUCKETS,
            registry=None,
        )
        self._readers = Gauge("keyfold_feed_readers", "Readers that follow changes now.", registry=None)
        self._ended = Counter(
            "keyfold_feed_disconnects_total",
            f"Change feeds that have ended, by reason: {', '.join(REASONS)}.",
            _BY_REASON,
            registry=None,
        )
        for reason in REASONS:
            self._ended.labels(reason)
        self.own = {self._durations: _BY_ROUTE, self._readers: (), self._ended: _BY_REASON}
        """All of them, with their labels."""
        self._timers: dict[tuple[str, str, int], Histogram] = {}

    def collect(self) -> Iterator[Family]:
        """The metrics of this server."""
        for one in self.own:
            for family in one.collect():
                family.samples = [s for s in family.samples if not s.name.endswith("_created")]
                yield family

    def answered(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Adds a request that was answered; `route`: the address in the route table."""
        # Any word can be the method of a request that no route has taken.
        known = method if method in _METHODS else OTHER
        name = (route or OTHER, known, status)
        if (timer := self._timers.get(name)) is None:
            timer = self._timers[name] = self._durations.labels(*map(str, name))
        timer.observe(seconds)

    def feed_began(self) -> None:
        """A reader follows changes."""
        self._readers.inc()

    def feed_ended(self, reason: str) -> None:
        """It no longer does."""
        self._readers.dec()
        self._ended.labels(reason).inc()

    def registry(self, *others: Collector) -> CollectorRegistry:
        """A registry of these metrics and of others."""
        found = CollectorRegistry()
        for one in (self, *others):
            found.register(one)
        return found
