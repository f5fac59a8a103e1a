"""`HomeCollector`: reads the status of each app of a home when Prometheus asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from keyfold.read.status import AppStatus
from keyfold.server.metrics.definitions import APP, LOOKUP, READABLE, SECTIONS, STREAM, TABLE, Metric

_LOG: Final = logging.getLogger("keyfold.server")
_Sample = tuple[str, tuple[str, ...], float]


class HomeCollector(Collector):
    """The metrics of the apps of a home; `status` reads that of an app, without Spark and without views."""

    def __init__(self, names: Callable[[], Iterable[str]], status: Callable[[str], AppStatus]) -> None:
        self._names, self._status = names, status

    def collect(self) -> Iterator[Family]:
        """All metrics, also those of which no app has a figure now."""
        families = _families()
        for app in self._names():
            for name, labels, value in self._samples(app):
                families[name].add_metric(labels, value)
        yield from families.values()

    def describe(self) -> list[Family]:
        """Their names, so that no app is read before the first scrape."""
        return list(_families().values())

    def _samples(self, app: str) -> list[_Sample]:
        """The figures of an app; one that can't be read must not take the others' with it."""
        try:
            found = list(_of_app(app, self._status(app)))
        except Exception as error:
            _LOG.info("no metrics of app %s: %s", app, error)
            return list(_of((READABLE,), (app,), 0))
        return [*_of((READABLE,), (app,), 1), *found]


def _families() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for labels, metrics in SECTIONS.values():
        for one in metrics:
            names = [*labels, one.label] if one.label else labels
            family = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            found[one.name] = family(one.name, one.help, labels=names)
    return found


def _of_app(name: str, app: AppStatus) -> Iterator[_Sample]:
    yield from _of(APP, (name,), app)
    for metrics, kind in ((TABLE, app.tables), (STREAM, app.streams), (LOOKUP, app.lookups)):
        yield from _of_each(metrics, name, kind)


def _of_each(metrics: Sequence[Metric[Any]], app: str, found: Mapping[str, Any]) -> Iterator[_Sample]:
    for name, status in found.items():
        yield from _of(metrics, (app, name), status)


def _of(metrics: Sequence[Metric[Any]], labels: tuple[str, ...], of: Any) -> Iterator[_Sample]:
    for one in metrics:
        for label, value in one.samples(of):
            yield one.name, (*labels, *label), value
