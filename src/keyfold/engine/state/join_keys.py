"""Finds a table's key in the rows kept by the join of two streams that feeds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine.storage.layout import AppHome

SIDES: Final = ("left", "right")
_ALIAS: Final = re.compile(r"(.+)\s+as\s+(`?\w+`?)", re.IGNORECASE | re.DOTALL)
Pipeline = Sequence[Mapping[str, Any]]
"""The steps of a stream, as recorded in app.json."""


@dataclass(frozen=True)
class JoinedKey:
    """A key by the columns of a joined stream, and the names of these on each side of the join."""

    columns: Mapping[str, str]
    """The values, as text."""
    on: frozenset[str]
    """The columns that both sides have and the joined stream has once; names are in lower case."""
    names: tuple[str, str]
    """Those of the sides, which the joined stream puts before other columns that both have."""
    left_only: bool

    def on_side(self, side: str, columns: Mapping[str, Sequence[str]]) -> dict[str, str] | None:
        """The values by the columns of a side; None if it lacks some of them.

        `columns`: those that the join keeps of each side.
        """
        found = {}
        for column, value in self.columns.items():
            name = self._on_side(column.lower(), side, columns)
            if name is None:
                return None
            found[name] = value
        return found

    def _on_side(self, column: str, side: str, columns: Mapping[str, Sequence[str]]) -> str | None:
        own = {name.lower(): name for name in columns[side]}
        if column in self.on:
            return own.get(column)
        if self.left_only:
            return own.get(column) if side == "left" else None
        both = set.intersection(*({name.lower() for name in columns[one]} for one in SIDES)) - self.on
        shown = {f"{self._prefix(side)}{name}" if name in both else name: name for name in own}
        return own.get(shown.get(column, ""))

    def _prefix(self, side: str) -> str:
        return f"{self.names[SIDES.index(side)]}_".lower()


def joined_key(home: AppHome, table: str, key: Mapping[str, str]) -> JoinedKey | None:
    """Values of columns of a table's key, by the columns of the join that feeds it.

    None if there is no join or several, or if the key is computed by later steps.
    """
    found = home.read_plan().declared_tables.get(table, {})
    steps: Pipeline = found.get("input") or ()
    joins = [i for i, step in enumerate(steps) if "join" in step]
    if len(joins) != 1 or len(list(_joins(steps))) != 1:
        return None
    columns = {}
    for own, value in key.items():
        name = _before(steps[joins[0] + 1 :], _column(str(found["key"].get(own, ""))))
        if name is None:
            return None
        columns[name] = value
    join = steps[joins[0]]["join"]
    on = join["on"] if isinstance(join["on"], list) else []
    left, right = ("_".join(dict.fromkeys(_sources(join[side]))) for side in SIDES)
    left_only = join["how"] in ("left_semi", "left_anti")
    return JoinedKey(columns, frozenset(name.lower() for name in on), (left, right), left_only)


def _column(expression: str) -> str | None:
    """The column that an expression consists of, if it computes nothing."""
    name = expression.strip("`")
    return name if name.isidentifier() else None


def _before(steps: Pipeline, name: str | None) -> str | None:
    """The name of a column before some steps; None if it did not exist there."""
    for step in reversed(steps):
        if name is None or "transform" in step:
            return None
        if "select" in step:
            items = dict(_parse_selected(str(one["expression"]), one["name"]) for one in step["select"])
            name = _column(items.get(name.lower(), name if "*" in items else ""))
    return name


def _parse_selected(expression: str, name: str | None) -> tuple[str, str]:
    """The name of a selected column, in lower case, and its expression; `*` is called so."""
    if name is None and (alias := _ALIAS.fullmatch(expression.strip())):
        expression, name = alias.groups()
    return (name or expression).strip("` ").lower(), expression


def _joins(steps: Pipeline) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        if "join" in step:
            yield step
        for inner in _inner(step):
            yield from _joins(inner)


def _sources(steps: Pipeline) -> Iterator[str]:
    for step in steps:
        if "stream" in step:
            yield step["stream"]
        elif "changes" in step:
            yield step["changes"]["table"]
        for inner in _inner(step):
            yield from _sources(inner)


def _inner(step: Mapping[str, Any]) -> Sequence[Pipeline]:
    if "join" in step:
        return [step["join"][side] for side in SIDES]
    return step.get("union") or ()
