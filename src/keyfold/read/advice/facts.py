"""What an operator should look at: the facts that advice is made of, and advice in words, with a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.read.metrics import Failure
from keyfold.read.positions import Follower
from keyfold.read.status import AppStatus
from keyfold.read.trends import Trends

Level = Literal["bad", "warn", "hint"]
LEVELS: Final[tuple[Level, ...]] = ("bad", "warn", "hint")


@dataclass(frozen=True)
class Advice:
    """Something to look at: what is so, what it means or what to do, and a command."""

    level: Level
    """bad: rows are not folded, or nothing runs; warn: look at it today; hint: worth knowing."""
    table: str | None
    """null if it is about the app."""
    what: str
    why: str
    command: str | None = None


@dataclass(frozen=True)
class AppHealth:
    """What an operator should look at, worst first; nothing if all is well."""

    app: str
    state: str
    advice: Sequence[Advice]


@dataclass(frozen=True)
class Facts:
    """What advice is made of."""

    status: AppStatus
    stored: StoredApp
    trends: Trends
    savepoints: Sequence[Savepoint] | None
    """None if they are elsewhere."""
    followers: Mapping[str, Sequence[Follower]]
    """Of each table."""
    now: datetime


def of_failure(failure: Failure, app: str) -> Advice:
    """What a failure means."""
    of = f"Table {failure.table}" if failure.table else "The app"
    batch = "" if failure.batch is None else f" in batch {failure.batch:,}"
    again = "Nothing of this batch is lost: started again, it runs from its first row."
    return Advice(
        "bad",
        failure.table,
        f"{of} has failed{batch}",
        f"{sentence(failure.text)} {again}",
        f"keyfold status {app}",
    )


def sentence(text: str) -> str:
    """The first line of a text, with an end."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if line.endswith((".", "!", "?")) or not line else f"{line}."
