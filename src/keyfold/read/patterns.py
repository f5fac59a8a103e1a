"""The pattern of a table, as its last start declared it: its words, and its steps as a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import QueryError
from keyfold.plan.describe.pattern_graph import PatternArrow, PatternStep


@dataclass(frozen=True)
class Pattern:
    """A pattern as declared."""

    sequence: str
    within: str | None
    skip: str
    order: str
    timeouts: bool
    limit: int | None
    returns: Mapping[str, str]
    steps: Sequence[PatternStep]
    """Empty if an earlier version has recorded the app."""
    arrows: Sequence[PatternArrow]


def of(stored: StoredApp, table: str, app: str) -> Pattern:
    """The pattern of a table; a `QueryError` not_found if it has none."""
    found: Mapping[str, Any] | None = (stored.declared_tables.get(table) or {}).get("pattern")
    if found is None:
        patterns = [name for name, one in stored.declared_tables.items() if one.get("pattern")]
        hint = f"tables of patterns: {', '.join(patterns)}" if patterns else "the app declares no pattern"
        raise QueryError(f"{app}.{table} has no pattern", reason="not_found", given=table, hint=hint)
    graph = found.get("graph") or {"steps": (), "follows": ()}
    return Pattern(
        sequence=found["steps"],
        within=found.get("within"),
        skip=found["skip"],
        order=found["order"],
        timeouts=bool(found.get("timeouts")),
        limit=found.get("limit"),
        returns=found.get("returns") or {},
        steps=[PatternStep(**one) for one in graph["steps"]],
        arrows=[PatternArrow(**one) for one in graph["follows"]],
    )
