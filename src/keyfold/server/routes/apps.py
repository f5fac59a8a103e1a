"""`/api/apps`, `/api/apps/{app}` and its savepoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from keyfold.errors import KeyfoldError
from keyfold.read.advice.facts import AppHealth
from keyfold.read.status import AppStatus, State
from keyfold.read.trends import Trends
from keyfold.server import parameters
from keyfold.server.route import OF_APP, Call, Route


@dataclass(frozen=True)
class AppLine:
    """An app in the list of apps."""

    name: str
    state: State | None
    """null if its files can't be read."""
    running: bool
    seen: datetime | None
    """When the app last wrote its status."""
    tables: Sequence[str]
    problem: str | None = None
    """What keeps its files or its views from being read."""


@dataclass(frozen=True)
class AppList:
    """The apps of a home."""

    home: str
    apps: Sequence[AppLine]


@dataclass(frozen=True)
class SavepointList:
    """The savepoints of an app, as `keyfold savepoint list --json` prints them."""

    app: str
    savepoints: Sequence[Mapping[str, Any]]


def list_apps(call: Call) -> AppList:
    """The apps of the home, running or not, with the names of their tables."""
    return AppList(call.home.directory, [_line(call, name) for name in call.home.names()])


def _line(call: Call, name: str) -> AppLine:
    try:
        found = call.home.app(name).status()
    except KeyfoldError as error:
        return AppLine(name, None, False, None, [], str(error))
    return AppLine(name, found.state, found.running, found.seen, list(found.tables), found.problem)


def get_app(call: Call) -> AppStatus:
    """The status of an app and of its tables, streams and lookups.

    It is what `keyfold status --json` prints: a running app writes it every second.
    """
    return call.app.status()


def get_health(call: Call) -> AppHealth:
    """What an operator should look at: failures, rows not folded, what is behind, what grows; worst first.

    Each has the command that helps. It follows from status, logs, savepoints and trends alone.
    """
    return call.app.health()


def get_trends(call: Call) -> Trends:
    """The figures of the tables of an app over time: a point for each minute in which a batch ended.

    A running app records them beside its status, for hours in full, and for weeks with fewer points.
    """
    last = call.values["last"]
    return call.app.trends(None if last is None else timedelta(seconds=last))


def list_savepoints(call: Call) -> SavepointList:
    """The complete savepoints of an app, oldest first."""
    return SavepointList(call.app.name, [one.document() for one in call.app.savepoints()])


_LAST: Final = parameters.duration(
    "last", "How far back, such as `1h`; all that is recorded without it.", example="1h"
)
ROUTES: Final = (
    Route("list_apps", "/api/apps", list_apps, AppList, role="reader"),
    Route("get_app", OF_APP, get_app, AppStatus, role="reader"),
    Route("get_health", f"{OF_APP}/health", get_health, AppHealth, role="reader"),
    Route("get_trends", f"{OF_APP}/trends", get_trends, Trends, (_LAST,), role="reader"),
    Route("list_savepoints", f"{OF_APP}/savepoints", list_savepoints, SavepointList, role="reader"),
)
