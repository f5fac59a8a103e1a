"""The health of an app: all advice on it and on its tables, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from keyfold.read.advice import tables
from keyfold.read.advice.facts import LEVELS, Advice, AppHealth, Facts, Level, of_failure, sentence

_OLD_SAVEPOINT: Final = timedelta(days=7)


def health(facts: Facts) -> AppHealth:
    """All advice on an app."""
    found = [*_of_app(facts)]
    for table, status in facts.status.tables.items():
        found += tables.of_table(facts, table, status)
    found.sort(key=lambda one: LEVELS.index(one.level))
    return AppHealth(facts.status.app, facts.status.state, found)


def _of_app(facts: Facts) -> Iterator[Advice]:
    status, app = facts.status, facts.status.app
    if status.state in _STATES:
        level, what, why, command = _STATES[status.state]
        yield Advice(level, None, what, why, command.replace("PID", str(status.pid)))
    for failure in status.failures:
        if failure.table is None or failure.table not in status.tables:
            yield of_failure(failure, app)
    if status.problem is not None:
        yield Advice("bad", None, "The views of some tables can't be read", status.problem, "keyfold doctor")
    for name, lookup in status.lookups.items():
        if lookup.error is not None:
            why = f"Its {lookup.rows:,} rows of the last load are used: {sentence(lookup.error)}"
            yield Advice("warn", None, f"Lookup {name} could not be reloaded", why)
    yield from _savepoints(facts)


_STATES: Final[Mapping[str, tuple[Level, str, str, str]]] = {
    "failed": (
        "bad",
        "The app has failed",
        "Nothing is folded until it is started again.",
        "keyfold run APP.py",
    ),
    "killed": (
        "bad",
        "The app's process has gone without an end",
        "It was killed, or its machine stopped. Started again, it goes on where it was, each row once.",
        "keyfold run APP.py",
    ),
    "not responding": (
        "bad",
        "The app has written no status for more than 10 s",
        "Its process lives, but does nothing: its log or its JVM may say why.",
        "keyfold status",
    ),
    "suspended": (
        "warn",
        "The app's process is suspended",
        "A signal stopped it; it holds the home.",
        "kill -CONT PID",
    ),
}


def _savepoints(facts: Facts) -> Iterator[Advice]:
    begun = any(table.batch is not None for table in facts.status.tables.values())
    if facts.savepoints is None or not begun:
        return
    live = " --live" if facts.status.running else ""
    command = f"keyfold savepoint create NAME{live} --app {facts.status.app}"
    newest = max((one.at for one in facts.savepoints), default=None)
    if newest is None:
        why = "One is needed to go back to an earlier state, as after a wrong deployment."
        yield Advice("hint", None, "The app has no savepoint", why, command)
    elif facts.now - newest > _OLD_SAVEPOINT:
        days = (facts.now - newest).days
        why = "Going back to it means reading all rows since then again, if the sources still have them."
        yield Advice("hint", None, f"The newest savepoint is {days} days old", why, command)
