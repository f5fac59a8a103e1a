"""What a table begins with, before its stream: rows of files, or the state of a savepoint."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, TypeAlias

from keyfold.plan.nodes import Connector, Node, Source, Union


@dataclass(frozen=True)
class InitialRows:
    """Rows that a table begins with, before those of its stream: files, up to a time.

    Rows of the files have event times before `until`, rows of the stream do not; None is right after the
    newest row of the files.
    """

    connector: Connector
    until: datetime | None = None


@dataclass(frozen=True)
class InitialState:
    """The state that a table begins with: that of a table in a savepoint; None is the table's own name.

    The table goes on from the savepoint's position in the stream.
    """

    savepoint: str
    app: str | None = None
    table: str | None = None
    home: str | None = None


Initial: TypeAlias = InitialRows | InitialState


def with_source(node: Node, source: Source) -> Node:
    """The node on another source of the same name."""
    if isinstance(node, Source):
        return source if node.name == source.name else node
    if isinstance(node, Union):
        return replace(node, inputs=tuple(with_source(one, source) for one in node.inputs))
    inner = [one.name for one in fields(node) if one.name in ("input", "left", "right")]
    changed: dict[str, Any] = {name: with_source(getattr(node, name), source) for name in inner}
    return replace(node, **changed)
