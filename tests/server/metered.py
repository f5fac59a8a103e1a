"""A home whose apps have every figure that metrics show, or none; and what a server says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from keyfold.engine.storage.layout import AppHome
from tests.cli.conftest import ROWS, TOTALS, make_app
from tests.server.conftest import Get, fill
from tests.unit.read.test_status import STATUS

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def fill_metered(home: Path) -> None:
    """The app shop, whose last run has failed; and damaged, whose files can't be read."""
    fill(home)
    totals = {**STATUS["tables"]["totals"], "state_bytes": 1 << 20}
    orders = {
        **STATUS["streams"]["orders"],
        "messages_left": 3,
        "messages_left_by_partition": {"orders-0": 3},
    }
    status = {**STATUS, "tables": {"totals": totals}, "streams": {"orders": orders}}
    AppHome(home / "shop").write_status(status)
    make_app(AppHome(home / "damaged"), {TOTALS: ROWS[TOTALS]})
    (home / "damaged" / "app.json").write_text("{")


@dataclass(frozen=True)
class Metrics:
    """What a scrape has: families by name, and values by name and labels."""

    families: Mapping[str, Family]

    def value(self, name: str, **labels: str) -> float | None:
        """The value of a sample; None if there is none."""
        return self.samples(name).get(frozenset(labels.items()))

    def samples(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """The values of a metric by labels."""
        found = (s for family in self.families.values() for s in family.samples if s.name == name)
        return {frozenset(one.labels.items()): one.value for one in found}

    def labels(self) -> dict[str, set[str]]:
        """The names of labels by the names of samples."""
        found: dict[str, set[str]] = {}
        for family in self.families.values():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found


def scrape(get: Get, accept: str | None = None) -> Metrics:
    """Asks a server for its metrics, as Prometheus does."""
    answer = get("/metrics") if accept is None else get("/metrics", accept=accept)
    assert answer.status == 200
    text, media = answer.body.decode(), answer.headers["content-type"].partition(";")[0]
    assert media == ("text/plain" if accept is None else "application/openmetrics-text")
    return Metrics(_by_name(parse_text(text) if accept is None else parse_openmetrics(text)))


def _by_name(families: Iterable[Family]) -> dict[str, Family]:
    found = list(families)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}
