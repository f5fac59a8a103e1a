"""Declares a table's pattern to the kernel: its automaton, its conditions, and the columns of a match."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from keyfold.engine.compile.context import Context
from keyfold.engine.spark_errors import explain_errors
from keyfold.errors import BadExpression
from keyfold.kernel.api import DeclaredState, Lines, PatternDeclaration
from keyfold.plan.describe import phrases
from keyfold.plan.describe.phrases import expr_words
from keyfold.plan.nodes import Expr, TableSpec
from keyfold.plan.pattern.automaton import automaton
from keyfold.plan.pattern.program import Condition
from keyfold.plan.pattern.syntax import PatternSpec

_traces: Final[ContextVar[dict[str, Lines] | None]] = ContextVar("traces", default=None)


def declare(context: Context, declaration: DeclaredState, spec: TableSpec, pattern: PatternSpec) -> None:
    """Adds the pattern to the declaration of the table's rows, item by item."""
    made = automaton(pattern)
    shown = phrases.pattern_words(pattern)
    whole = partial(explain_errors, context.spark, "pattern", context.where("pattern", pattern.site), shown)
    with whole():
        kernel = declaration.pattern(json.dumps(made.plain()))
    for condition in made.conditions:
        with _add_hint(condition.expression, made.steps):
            _condition(context, kernel, condition, pattern)
    for name, expression in pattern.returns:
        with _add_hint(expression, made.steps):
            context.at(f"returns {name}", expression, pattern.site, partial(kernel.returns, name))
    if (traces := _traces.get()) is not None:
        traces[spec.name] = kernel.traced()
    with whole():
        kernel.matching(
            pattern.within_ms,
            pattern.skip,
            made.steps.index(pattern.skip_to) if pattern.skip_to else None,
            pattern.order == "event",
            pattern.timeouts,
            pattern.limit,
            spec.ttl_ms,
        )
    context.meaning["pattern"] = meaning(pattern)


def meaning(pattern: PatternSpec) -> str:
    """What state depends on beside the expressions, which the kernel fingerprints without their spelling.

    `limit` is not part of it: the new limit applies from the next row of a key.
    """
    return phrases.pattern_words(pattern, spell=lambda _: "...")


@contextmanager
def trace_patterns() -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Patterns compiled inside record what each row does; yields a function that returns a table's lines."""
    traces: dict[str, Lines] = {}
    token = _traces.set(traces)
    try:
        yield lambda table: [json.loads(line) for line in list(traces[table].value())]
    finally:
        _traces.reset(token)


def _condition(
    context: Context, kernel: PatternDeclaration, condition: Condition, pattern: PatternSpec
) -> None:
    never = condition.kind == "step"
    if condition.expression is None:
        kernel.condition(None, never)
        return
    what = condition.name if condition.kind == "until" else f"{condition.kind} {condition.name}"
    site = condition.site or pattern.site
    context.at(what, condition.expression, site, lambda c: kernel.condition(c, never))


@contextmanager
def _add_hint(expression: Expr | None, steps: Iterable[str]) -> Iterator[None]:
    """Adds how a step's rows are written to an error about an expression that names a step."""
    try:
        yield
    except BadExpression as error:
        named = next((n for n in steps if re.search(rf"\b{n}\.", expr_words(expression or ""))), None)
        if error.hint is not None or named is None:
            raise
        rows = f"{named} is an array of rows: {named}[0].x for the first, array_avg({named}.x) for all"
        raise BadExpression(error.what, where=error.where, given=error.given, hint=rows) from None
