"""The texts below the fields of dataclasses, which say what these hold."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache


@cache
def _own(kind: type) -> dict[str, str]:
    """The texts below the fields of one class."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, str] = {}
    before: ast.stmt | None = None
    for statement in getattr(tree, "body", []):
        match before, statement:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                found[name] = " ".join(inspect.cleandoc(text).split())
        before = statement
    return found


def field_docs(kind: type) -> dict[str, str]:
    """The text below each field, also of the classes that it extends."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        found |= _own(base)
    return found
