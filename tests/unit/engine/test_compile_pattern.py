"""What the kernel is told of a pattern, and with which line of the user's file."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import keyfold as kf
from keyfold.engine.compile import pattern
from keyfold.plan.pattern.syntax import PatternSpec


def test_each_condition_is_told_with_the_line_of_its_step() -> None:
    rows = kf.App("bank").stream("rows", kf.rows([]), "card int, kind string, at timestamp", time="at")
    a = kf.step("a", "kind = 'a'")
    no = kf.no("n", "kind = 'n'")
    b = kf.step("b", "kind = 'b'", times="+", until="kind = 'u'")
    spec = rows.by("card").pattern("found", a >> no >> b, within="1 hour", returns={"n": "size(b)"}).spec
    assert isinstance(spec.body, PatternSpec)
    assert spec.site is not None
    lines: dict[str, int] = {}

    def at(what: str, expression: Any, site: Any, act: Any) -> None:
        lines[what] = spec.site.line - site.line

    declaration = MagicMock()
    context: Any = SimpleNamespace(spark=None, meaning={}, where=lambda what, site: "", at=at)
    pattern.declare(context, declaration, spec, spec.body)
    assert lines == {"step a": 3, "no n": 2, "step b": 1, "until kind = 'u'": 1, "returns n": 0}
    declared = json.loads(declaration.pattern.call_args.args[0])
    assert sorted(declared) == ["conditions", "initial", "positions", "steps", "transitions"]
