"""The exceptions that keyfold raises, and how their text is composed.

```
KeyfoldError                    the base class
├── DeclarationError            the user's declaration is wrong; also a ValueError
│   ├── NameTaken               another stream, table or lookup has the name
│   ├── BadName                 not an identifier, or a reserved name
│   ├── BadDuration             not a duration
│   ├── BadExpression           not an expression, or one that Spark refuses
│   ├── BadOption               an unknown option, or a value that it doesn't accept
│   ├── BadApp                  a file without an app, or an app without tables
│   └── StateMismatch           the state on disk was written by another definition
├── RunError                    a run failed; also a RuntimeError; has .app, .table, .batch
│   ├── HomeLocked              a running process holds the home: another one, or this one
│   ├── HomeUnusable            the home can't be read or written
│   ├── SavepointUnusable       a savepoint is damaged, or belongs to another app, layout or Spark
│   ├── LeaseLost               another process has taken the home over, or the lease can't be renewed
│   ├── JavaMissing             no Java, or a version that is too old
│   ├── JavaEnded               the JVM ended unexpectedly: killed, or out of memory
│   ├── KernelBuildFailed       the kernel could not be compiled
│   ├── JarsMissing             jars beside Spark's own are not here, and can't be fetched
│   ├── BrokerFailed            the broker of `keyfold dev kafka` did not start
│   ├── QueryFailed             a table's query stopped
│   └── ConnectRefused          the session is a Spark Connect session, which can't run the kernel
└── QueryError                  a read failed; also a LookupError; has .reason and .status
```

`keyfold` itself exports `KeyfoldError` and its three families; the others are imported from `keyfold.errors`.

The text says what is wrong, where, what was given, and what to do:

```
unknown option 'tll' of table
  where: shop.region_totals, shop.py:12
  given: tll='30 days'
  try: did you mean 'ttl'?
```
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

__all__ = [
    "BadApp",
    "BadDuration",
    "BadExpression",
    "BadName",
    "BadOption",
    "BrokerFailed",
    "ConnectRefused",
    "DeclarationError",
    "HomeLocked",
    "HomeUnusable",
    "JarsMissing",
    "JavaEnded",
    "JavaMissing",
    "KernelBuildFailed",
    "KeyfoldError",
    "LeaseLost",
    "NameTaken",
    "QueryError",
    "QueryFailed",
    "RunError",
    "SavepointUnusable",
    "StateMismatch",
]

Reason: TypeAlias = Literal[
    "not_found",
    "not_ready",
    "behind_bound",
    "too_old",
    "bad_request",
    "unauthorized",
    "forbidden",
    "not_allowed",
    "not_acceptable",
    "too_large",
    "too_long",
    "headers_too_long",
    "too_slow",
    "too_many",
    "gone",
]

STATUS: Final[dict[Reason, int]] = {
    "not_found": 404,
    "not_ready": 503,
    "behind_bound": 409,
    "too_old": 412,
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_allowed": 405,
    "not_acceptable": 406,
    "too_large": 413,
    "too_long": 414,
    "headers_too_long": 431,
    "too_slow": 408,
    "too_many": 429,
    "gone": 410,
}


class KeyfoldError(Exception):
    """The base class of all exceptions that keyfold raises."""

    def __init__(
        self, what: str, *, where: object = None, given: object = None, hint: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.given = None if given is None else str(given)
        self.hint = hint

    @property
    def near(self) -> list[str]:
        """The name that the hint suggests in place of the given one, if it does."""
        found = _SUGGESTION.fullmatch(self.hint or "")
        return [found[1]] if found else []

    def __str__(self) -> str:
        parts = (("where", self.where), ("given", self.given), ("try", self.hint))
        return "\n".join([self.what, *(_line(label, text) for label, text in parts if text)])


class DeclarationError(KeyfoldError, ValueError):
    """The user's declaration is wrong."""


class NameTaken(DeclarationError):
    """Another stream, table or lookup has the name."""


class BadName(DeclarationError):
    """Not an identifier, or a reserved name."""


class BadDuration(DeclarationError):
    """Not a duration."""


class BadExpression(DeclarationError):
    """Not an expression, or one that Spark refuses."""


class BadOption(DeclarationError):
    """An unknown option, or a value that it doesn't accept."""


class BadApp(DeclarationError):
    """A file without an app, or an app without tables."""


class StateMismatch(DeclarationError):
    """The state on disk was written by another definition."""


class RunError(KeyfoldError, RuntimeError):
    """A run failed. `app`, `table` and `batch` say where, as far as it is known."""

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        given: object = None,
        hint: str | None = None,
        app: str | None = None,
        table: str | None = None,
        batch: int | None = None,
    ) -> None:
        location = where if where is not None else _location(app, table, batch)
        super().__init__(what, where=location, given=given, hint=hint)
        self.app = app
        self.table = table
        self.batch = batch


class HomeLocked(RunError):
    """A running process holds the home: another one, or this one."""

    passes: bool = False
    """Whether the holder runs no queries, so that a start can soon succeed."""


class HomeUnusable(RunError):
    """The home can't be read or written."""


class SavepointUnusable(RunError):
    """A savepoint is damaged, or belongs to another app, layout or version of Spark."""


class LeaseLost(RunError):
    """Another process has taken the home over, or the lease can't be renewed; nothing more is written."""


class JavaMissing(RunError):
    """No Java, or a version that is too old."""


class JavaEnded(RunError):
    """The JVM ended unexpectedly: killed, or out of memory."""


class KernelBuildFailed(RunError):
    """The kernel could not be compiled."""


class JarsMissing(RunError):
    """Jars beside Spark's own are not here, and can't be fetched."""


class BrokerFailed(RunError):
    """The broker of `keyfold dev kafka` did not start."""


class QueryFailed(RunError):
    """A table's query stopped."""


class ConnectRefused(RunError):
    """The session is a Spark Connect session, which can't run the kernel."""


class QueryError(KeyfoldError, LookupError):
    """A read failed. `reason` says why in one word, `status` is the matching HTTP status."""

    def __init__(
        self,
        what: str,
        *,
        reason: Reason = "bad_request",
        where: object = None,
        given: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what, where=where, given=given, hint=hint)
        self.reason: Reason = reason

    @property
    def status(self) -> int:
        """The HTTP status of the reason."""
        return STATUS[self.reason]


_SUGGESTION: Final = re.compile(r"did you mean ['\"](.*)['\"]\?")


def near(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The candidate most similar to the name, ignoring case, or None if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, candidates: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint that suggests the most similar candidate, or the other hint if none is similar.

    >>> did_you_mean("tll", ["ttl", "help"])
    "did you mean 'ttl'?"
    """
    found = near(name, candidates)
    return f"did you mean {found!r}?" if found else otherwise


def choice(names: Iterable[str]) -> str:
    """A hint that lists the names to choose from.

    >>> choice(["orders", "payments"]), choice(["orders"])
    ('one of: orders, payments', 'orders')
    """
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"one of: {', '.join(listed)}"


def _line(label: str, text: str) -> str:
    first, *rest = text.splitlines() or [""]
    return "\n".join([f"  {label}: {first}", *(f"    {line}" for line in rest)])


def _location(app: str | None, table: str | None, batch: int | None) -> str | None:
    name = ".".join(part for part in (app, table) if part)
    return ", ".join([*([name] if name else []), *([] if batch is None else [f"batch {batch}"])]) or None
