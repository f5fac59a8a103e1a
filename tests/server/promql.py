"""The names in PromQL: metrics, the labels that select of each, and labels that the result is grouped by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_METRIC = re.compile(r"\b((?:keyfold_\w+|up))\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Selected:
    """A metric in an expression, and how its labels are matched: label, operator, text."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def selected(expression: str) -> list[Selected]:
    """The metrics of an expression."""
    return [Selected(m[1], tuple(_MATCHER.findall(m[2] or ""))) for m in _METRIC.finditer(expression)]


def grouped(expression: str) -> set[str]:
    """The labels by which an expression groups or joins."""
    return {one.strip() for m in _GROUPED.finditer(expression) for one in m[1].split(",") if one.strip()}


def shown(text: str) -> Iterator[str]:
    """The labels that a legend or an annotation shows: {{app}}, {{ $labels.app }}."""
    for word in re.findall(r"\{\{\s*(.*?)\s*\}\}", text):
        if not word.startswith("$value"):
            yield word.removeprefix("$labels.")


def left(expression: str) -> set[str] | None:
    """The labels that the outermost aggregation leaves; None if there is none around all of it."""
    match = re.match(r"\s*(?:\w+\([\d.]+,\s*)?(?:sum|max|min|avg)(?:\s+by\s*\(([^)]*)\))?\s*\(", expression)
    return None if match is None else {one.strip() for one in (match[1] or "").split(",") if one.strip()}
