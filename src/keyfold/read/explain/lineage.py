"""What a table reads, as it was declared: each source, the steps after it, and the key's columns in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from keyfold.engine.log.readers import Use
from keyfold.plan.table_keys import BOUNDS

_COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))\s*")
_ALIAS: Final = re.compile(r"(.*\S)\s+as\s+(`[^`]+`|\w+)\s*", re.IGNORECASE | re.DOTALL)
Step = Mapping[str, Any]


@dataclass(frozen=True)
class Read:
    """A stream or table that a table reads, and the steps through which its rows go."""

    kind: str
    """stream or table"""
    name: str
    steps: tuple[Step, ...] = ()
    number: int = -1
    """The number of the use of a table's log, see `engine.log.readers`."""

    @property
    def words(self) -> list[str]:
        """The steps in words, in order."""
        return [_words(step) for step in self.steps]

    def column(self, expression: str) -> str | None:
        """The column of the source that an expression over the last step is; None if it is computed."""
        name = _column(expression)
        for step in reversed(self.steps):
            items = step.get("select")
            if name is None or items is None:
                continue
            name = _selected(items, name)
        return name


def reads(table: Mapping[str, Any]) -> list[Read]:
    """The sources of a declared table; a lookup is none, since its rows make no batch."""
    pipeline = table.get("input") or ()
    return list(_of(pipeline, [id(step) for step in steps_of_tables(pipeline)]))


def use_of(read: Read, sources: Sequence[Read], uses: Sequence[Use]) -> Use | None:
    """The use that a read of a log is, among those of its table, which are in order."""
    if read.kind == "table":
        return next((use for use in uses if (use.number, use.table) == (read.number, read.name)), None)
    # Streams are numbered behind the tables, each once.
    first = max((one.number for one in sources), default=-1) + 1
    return next((use for use in uses if use.stream and use.table == read.name and use.number >= first), None)


def key_columns(table: Mapping[str, Any]) -> dict[str, str]:
    """The key's parts with their expressions, without the bounds of windows."""
    key = table.get("key")
    return {name: str(value) for name, value in key.items()} if isinstance(key, Mapping) else {}


def is_windowed(table: Mapping[str, Any], key: Sequence[str]) -> bool:
    """Whether a key of so many parts ends with the bounds of a window."""
    return table.get("window") is not None and len(key) == len(key_columns(table)) + len(BOUNDS)


def steps_of_tables(pipeline: Sequence[Step]) -> Iterator[Step]:
    """The steps that read a table, in the order of `plan.tree.reads`: a step comes before its input."""
    for step in reversed(pipeline):
        ((what, value),) = step.items()
        if what in ("changes", "enrich"):
            yield step
        for arm in value if what == "union" else ():
            yield from steps_of_tables(arm)
        for side in ("left", "right") if what == "join" else ():
            yield from steps_of_tables(value[side])


def _of(pipeline: Sequence[Step], of_tables: Sequence[int]) -> Iterator[Read]:
    for number, step in enumerate(pipeline):
        after = tuple(pipeline[number + 1 :])
        ((what, value),) = step.items()
        match what:
            case "stream":
                yield Read("stream", value, after)
            case "changes":
                yield Read("table", value["table"], after, of_tables.index(id(step)))
            case "enrich" if value.get("as_of") == "arrival":
                yield Read("table", value["table"], (step, *after), of_tables.index(id(step)))
            case "union":
                yield from (_with(read, after) for arm in value for read in _of(arm, of_tables))
            case "join":
                for side in ("left", "right"):
                    yield from (_with(read, (step, *after)) for read in _of(value[side], of_tables))


def _with(read: Read, after: tuple[Step, ...]) -> Read:
    return replace(read, steps=(*read.steps, *after))


def _column(expression: str) -> str | None:
    found = _COLUMN.fullmatch(expression)
    return None if found is None else found[1] or found[2]


def _selected(items: Sequence[Mapping[str, Any]], name: str) -> str | None:
    """The column that an item of a select is; a select without the name has it by `*`, or not at all."""
    for item in items:
        given, expression = item.get("name"), str(item["expression"])
        if given is None and (alias := _ALIAS.fullmatch(expression)):
            expression, given = alias[1], alias[2].strip("`")
        if (given or _column(expression) or "").lower() == name.lower():
            return _column(expression)
    return name


def _words(step: Step) -> str:
    ((what, value),) = step.items()
    match what:
        case "where":
            return f"where {value}"
        case "select":
            return "select"
        case "join" | "enrich" | "lookup":
            with_ = value.get("table") or value.get("name")
            return f"{what} with {with_}" if with_ else what
    return str(what)
