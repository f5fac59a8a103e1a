"""The dashboard and the alerts in `deploy/`: their metrics and labels are those of the real `/metrics`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.server.conftest import client, serving
from tests.server.metered import Metrics, fill_metered, scrape
from tests.server.promql import grouped, left, selected, shown
from tests.server.sse import Reader

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "keyfold.json").read_text("utf-8"))
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
# What Prometheus adds to each sample by itself.
ADDED = {"instance", "job"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """The metrics of a home that is served, in which everything has a figure."""
    home = tmp_path_factory.mktemp("deployed") / "home"
    fill_metered(home)
    with serving(home) as server:
        get = client(server)
        get("/api/apps")
        Reader(server, "tables=shop.totals").close()
        return scrape(get)


def panels() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of each query of the dashboard."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def alerts() -> Iterator[tuple[str, str, str]]:
    """Name, expression and texts of each alert."""
    for rule in RULES:
        yield rule["alert"], rule["expr"], " ".join(rule["annotations"].values())


def values_of(metrics: Metrics, name: str, label: str) -> set[str]:
    """The values that a label of a metric really has."""
    return {dict(labels).get(label, "") for labels in metrics.samples(name)}


def problems(metrics: Metrics, expression: str, text: str) -> list[str]:
    """What an expression, and the text beside it, name and the metrics lack."""
    real, found = metrics.labels() | {"up": ADDED}, []
    labels: set[str] = set()
    for one in selected(expression):
        if one.name not in real:
            found.append(f"no metric {one.name}")
            continue
        labels |= (of := real[one.name] | ADDED)
        for label, operator, value in one.matchers:
            if label not in of:
                found.append(f"{one.name} has no label {label}")
            elif label not in ADDED and "$" not in value and operator in ("=", "=~"):
                parts = value.split("|") if operator == "=~" else [re.escape(value)]
                there = values_of(metrics, one.name, label)
                known = [part for part in parts if any(re.fullmatch(part, each) for each in there)]
                # An answer that is a failure of the server is none of those that a test asks for.
                if label != "status" and known != parts:
                    found.append(f"{one.name} has no {label} like {value}")
    found += [f"no label {label} to group by" for label in grouped(expression) - labels]
    result = left(expression)
    kept = labels if result is None else labels & result
    found += [f"no label {label} to show" for label in shown(text) if label not in kept]
    return found


@pytest.mark.parametrize(("name", "expression", "text"), [*panels(), *alerts()])
def test_metrics_and_labels_of_dashboard_and_alerts_exist(
    real: Metrics, name: str, expression: str, text: str
) -> None:
    assert selected(expression), name
    assert problems(real, expression, text) == [], name


def test_the_variables_of_the_dashboard_exist(real: Metrics) -> None:
    queries = [one["definition"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    for query in queries:
        expression, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()  # type: ignore[union-attr]
        assert problems(real, expression, f"{{{{{label}}}}}") == []
    assert {f"${one['name']}" for one in DASHBOARD["templating"]["list"]} >= {
        word for _, expression, _ in panels() for word in re.findall(r"\$(?!__)\w+", expression)
    }


@pytest.mark.parametrize(
    ("expression", "text", "problem"),
    [
        ("keyfold_table_lag", "", "no metric keyfold_table_lag"),
        ("rate(keyfold_table_batches[5m])", "", "no metric keyfold_table_batches"),
        ('keyfold_app_state{table="x"}', "", "keyfold_app_state has no label table"),
        ('keyfold_app_state{state="dead"}', "", "keyfold_app_state has no state like dead"),
        ('keyfold_app_state{state=~"failed|dead"}', "", "keyfold_app_state has no state like failed|dead"),
        ("sum by (stream) (keyfold_table_keys)", "", "no label stream to group by"),
        ("keyfold_table_keys", "{{app}}.{{stream}}", "no label stream to show"),
        ("sum by (app) (keyfold_table_keys)", "{{ $labels.table }}", "no label table to show"),
    ],
)
def test_a_name_that_does_not_exist_is_noticed(
    real: Metrics, expression: str, text: str, problem: str
) -> None:
    assert problems(real, expression, text) == [problem]


def test_panels_lie_beside_each_other_and_alerts_say_what_to_do() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        taken = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= taken
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for rule in RULES:
        assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_every_alert_is_in_the_docs() -> None:
    page = (DEPLOY.parent / "docs" / "how-to" / "monitor.md").read_text("utf-8")
    assert [rule["alert"] for rule in RULES if f"`{rule['alert']}`" not in page] == []


def test_every_alert_is_made_to_fire() -> None:
    """By the tests of `promtool test rules`."""
    tests = (DEPLOY / "prometheus" / "alerts_test.yml").read_text("utf-8")
    assert [rule["alert"] for rule in RULES if f'alertname="{rule["alert"]}"' not in tests] == []


def test_promtool_accepts_rules_and_metrics(tmp_path: Path) -> None:
    """Where Prometheus' own tool is installed; the tests above need none."""
    tool = shutil.which("promtool")
    if tool is None:
        return
    fill_metered(tmp_path / "home")
    with serving(tmp_path / "home") as server:
        text = client(server)("/metrics").body
    config, tests = (str(DEPLOY / "prometheus" / name) for name in ("prometheus.yml", "alerts_test.yml"))
    for words, given in (
        (["check", "config", config], b""),
        (["check", "metrics"], text),
        (["test", "rules", tests], b""),
    ):
        done: Any = subprocess.run([tool, *words], input=given, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
