"""The page of the metrics, for tools/reference.py, made from their help texts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any


def metrics_page() -> str:
    """Every metric with its type, its labels and what it says."""
    return "\n\n".join([_METRICS, *(_section(title, lines) for title, lines in _sections())])


def _sections() -> Iterator[tuple[str, list[str]]]:
    from keyfold.server.metrics.definitions import SECTIONS

    for title, (labels, metrics) in SECTIONS.items():
        yield title, [_line(one.name, one.kind, one.help, _labels(labels, one)) for one in metrics]
    yield "The server", list(_of_server())


def _labels(labels: tuple[str, ...], one: Any) -> list[str]:
    return [*labels, *([one.label] if one.label else [])]


def _of_server() -> Iterator[str]:
    from keyfold.server.metrics.requests import ServerMetrics

    for one, labels in ServerMetrics().own.items():
        (family,) = one.collect()
        name = family.name + ("_total" if family.type == "counter" else "")
        yield _line(name, family.type, family.documentation, list(labels))


def _line(name: str, kind: str, help: str, labels: list[str]) -> str:
    shown = ", ".join(f"`{label}`" for label in labels)
    return f"| `{name}` | {kind} | {shown} | {help} |"


def _section(title: str, lines: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join([_HEAD, *lines])


_METRICS = inspect.cleandoc("""
# Metrics

`/metrics` of `keyfold run` and `keyfold serve` has them; [Monitor with Prometheus](../how-to/monitor.md) says
how to use them. A figure that is not known is left out. Counters of apps come from what the home has stored,
so they go on after a restart, until a table is reset; those of the server begin with its process.
""")
_HEAD = "| metric | type | labels | |\n|---|---|---|---|"
