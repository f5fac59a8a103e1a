"""Expressions, steps, windows and connectors in words, for every kind of description."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from typing import Any, Final

from keyfold.errors import masked
from keyfold.plan import durations
from keyfold.plan.nodes import Connector, Expr, Node, Select, Transform, Where, WindowSpec

_SECRET: Final = re.compile(r"secret|password|passwd|token|credential|access[._]?key|jaas", re.IGNORECASE)


def expr_words(value: Expr | Any) -> str:
    """SQL as it is; a function as `<function name at file:line>`."""
    if isinstance(value, str):
        return value
    while isinstance(value, functools.partial):
        value = value.func
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    code = getattr(value, "__code__", None) or getattr(_call_of(value), "__code__", None)
    place = f" at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""
    return f"<function {name.rpartition('<locals>.')[2]}{place}>"


def named_words(named: Iterable[tuple[str | None, Expr]], between: str = "as") -> list[str]:
    """Each expression with its name, unless it says that itself: "region", "date(at) as day"."""
    if between == "=":
        return [f"{name} = {expr_words(value)}" for name, value in named]
    return [_aliased(name, expr_words(value)) for name, value in named]


def step_words(node: Node) -> str:
    """A step of a pipeline on one line."""
    if isinstance(node, Where):
        return f"where {expr_words(node.condition)}"
    if isinstance(node, Select):
        return f"select {', '.join(named_words(node.items))}"
    if isinstance(node, Transform):
        return f"transform {expr_words(node.fn)}"
    return type(node).__name__.lower()


def window_words(window: WindowSpec) -> str:
    """Windows on one line: "sliding 1 hour every 1 minute, offset 30 seconds"."""
    if window.rows is not None:
        length = f"{window.rows} row{'' if window.rows == 1 else 's'}"
    else:
        length = expr_words(window.gap) if window.size_ms is None else durations.text(window.size_ms)
    every = f" every {durations.text(window.every_ms)}" if window.every_ms else ""
    offset = f", offset {durations.text(window.offset_ms)}" if window.offset_ms else ""
    zone = f", zone {window.zone}" if window.zone else ""
    return f"{window.kind} {length}{every}{offset}{zone}"


def connector_words(connector: Connector) -> str:
    """A source or sink on one line, secrets masked."""
    if connector.rows is not None:
        return f"rows ({len(connector.rows)})"
    kind = connector.kind if connector.kind == connector.format else f"{connector.kind} {connector.format}"
    options = ", ".join(f"{name}={value}" for name, value in shown_options(connector))
    path = masked(connector.path) if connector.path else ""
    return " ".join(part for part in (kind, path, f"({options})" if options else "") if part)


def shown_options(connector: Connector) -> tuple[tuple[str, str], ...]:
    """The options, those masked that hold a secret: descriptions end up in logs and on screens."""
    return tuple(
        (name, "***" if _SECRET.search(name) else masked(value)) for name, value in connector.options
    )


def _aliased(name: str | None, value: str) -> str:
    return value if name is None or name == value else f"{value} as {name}"


def _call_of(value: object) -> object:
    """The method that runs when an object of a class of the user's is called."""
    return vars(type(value)).get("__call__")
