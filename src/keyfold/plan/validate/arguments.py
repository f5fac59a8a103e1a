"""Checks of single arguments: names, expressions, numbers, choices."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from keyfold.errors import BadApp, BadExpression, BadName, BadOption, did_you_mean
from keyfold.plan.column_expression import ColumnExpression
from keyfold.plan.describe.phrases import expr_words
from keyfold.plan.nodes import AppSpec, Expr, FoldSpec, Named

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names become directories and files; file systems allow 255 bytes, and suffixes are added.
_LONGEST_NAME: Final = 128
_RULE: Final = "letters, digits and underscores; the first must not be a digit"

AS_TEXT: Final = (
    'SQL as a string, "count(*)", or a function that is called at the start, lambda: F.count("*")'
)

T = TypeVar("T")


def identifier(name: object, what: str, where: object = None) -> str:
    """The name, if it is an identifier that doesn't begin with an underscore, which keyfold reserves."""
    if not isinstance(name, str):
        raise BadName(f"the name of {what} must be a string", where=where, given=repr(name), hint=_RULE)
    if not _IDENTIFIER.fullmatch(name):
        why = "it is not an identifier"
    elif name.startswith("_"):
        why = "names that begin with an underscore are reserved"
    elif len(name) > _LONGEST_NAME:
        why = f"it is longer than {_LONGEST_NAME} characters"
    else:
        return name
    hint = suggest(name) or _RULE
    raise BadName(f"{name!r} is not allowed as the name of {what}: {why}", where=where, hint=hint)


def suggest(name: str) -> str | None:
    """The identifier most similar to the name, if there is one."""
    fixed = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return fixed[:_LONGEST_NAME] if fixed and not fixed[0].isdigit() else None


def table_name(name: object, where: object = None) -> str:
    """The name, if it is allowed for a table."""
    checked = identifier(name, "a table", where)
    if checked.lower().startswith("sqlite_"):
        raise BadName(
            f"{checked!r} is not allowed as the name of a table: names beginning with 'sqlite_' are reserved",
            where=where,
            hint=suggest(checked[7:]) or "another name",
        )
    return checked


def unique(names: Iterable[str], what: str, where: object = None) -> None:
    """Refuses duplicate names; case does not count, as in Spark."""
    seen: dict[str, str] = {}
    for name in names:
        # Other types than strings are refused later; here they must only not break the comparison.
        lower = str(name).lower()
        if lower in seen:
            same = "" if seen[lower] == name else f", also as {seen[lower]!r}: names are case-insensitive"
            raise BadName(
                f"{what} {name!r} is given twice{same}", where=where, hint="another name for one of them"
            )
        seen[lower] = name


def expression(value: object, what: str, where: object = None) -> Expr:
    """The value, if it is a SQL string, a function without arguments, or a Spark Column."""
    if isinstance(value, str):
        if not value.strip():
            raise BadExpression(
                f"{what} is empty", where=where, given=repr(value), hint="a Spark SQL expression"
            )
        return value
    if isinstance(value, FoldSpec):
        hint = 'a fold is a column of a table: .by("key").table("name", column=kf.fold(...))'
        raise BadExpression(f"{what} must not be a fold", where=where, hint=hint)
    # In some versions a Column is callable, so this check comes first.
    if type(value).__name__ == "Column":
        if hasattr(value, "_jc"):
            return ColumnExpression(value)
        # Spark Connect's, which has no JVM expression that the kernel could use.
        raise BadExpression(
            f"{what} is a Spark Column of a Connect session, which is not supported",
            where=where,
            hint=AS_TEXT,
        )
    if callable(value):
        return function(value, 0, what, where)
    hint = f"Spark SQL as a string{f': {str(value)!r}' if isinstance(value, int | float) else ''}"
    raise BadExpression(f"{what} is not an expression", where=where, given=repr(value), hint=hint)


def check_named(values: Mapping[str, object], what: str, where: object = None) -> Named:
    """Expressions by name, both checked. `what` is the kind of name, with its article: "a key"."""
    unique(values, _bare(what), where)
    return tuple(
        (identifier(name, what, where), expression(value, f"{_bare(what)} {name!r}", where))
        for name, value in values.items()
    )


def function(value: object, arguments: int, what: str, where: object = None) -> Callable[..., Any]:
    """The value, if it can be called with that many arguments."""
    if not callable(value):
        raise BadExpression(f"{what} is not a function", where=where, given=repr(value))
    try:
        inspect.signature(value).bind(*[None] * arguments)
    except ValueError:
        pass  # implemented in C without a signature: the call itself will show
    except TypeError as error:
        takes = "without arguments" if arguments == 0 else f"with {arguments} argument"
        problem = f"{what} is called {takes}: {error}"
        raise BadExpression(problem, where=where, given=expr_words(value)) from None
    return value


def positive(value: object, what: str, where: object = None) -> int:
    """The value, if it is a whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadOption(f"{what} must be a whole number above zero", where=where, given=repr(value))
    return value


def flag(value: object, what: str, where: object = None) -> bool:
    """The value, if it is True or False."""
    if isinstance(value, bool):
        return value
    raise BadOption(f"{what} must be True or False", where=where, given=f"{what}={value!r}")


def one_of(value: object, choices: Iterable[str], what: str, where: object = None) -> str:
    """The value, if it is one of the choices; otherwise the nearest is suggested."""
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return value
    listed = ", ".join(known)
    hint = did_you_mean(value, known) if isinstance(value, str) else None
    raise BadOption(f"{what} must be one of: {listed}", where=where, given=repr(value), hint=hint)


def require(value: object, name: str, what: str, hint: str, where: object = None) -> None:
    """Refuses a missing argument; Python's own error would not say what it takes."""
    if value is None:
        raise BadOption(f"{what} needs {name}=", where=where, hint=hint)


def instance(value: object, kind: type[T], what: str, advice: str, where: object = None) -> T:
    """The value, if it is an instance of the class."""
    if isinstance(value, kind):
        return value
    raise BadOption(what, where=where, given=repr(value), hint=advice)


def mapping(value: object, what: str, advice: str, where: object = None) -> dict[str, object]:
    """A copy of the value as a dict, if it is a mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    raise BadOption(what, where=where, given=repr(value), hint=advice)


def help_text(value: object, where: object = None) -> str:
    """The help text, without the indentation of a docstring."""
    return inspect.cleandoc(instance(value, str, "help must be a string", 'help="What it is for"', where))


def require_tables(spec: AppSpec) -> None:
    """Refuses an app without tables."""
    if not spec.tables:
        hint = 'stream.by("key").table("name", n="count(*)")'
        raise BadApp(f"app {spec.name!r} has no tables", where=spec.name, hint=hint)


def _bare(what: str) -> str:
    return what.removeprefix("a ").removeprefix("an ")
