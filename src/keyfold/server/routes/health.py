"""`/healthz` and `/readyz`, for supervisors and load balancers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from keyfold.errors import KeyfoldError, QueryError
from keyfold.server.granted.home import GrantedHome
from keyfold.server.route import Call, Route


@dataclass(frozen=True)
class Health:
    """That the server answers."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class Readiness:
    """That rows of every app can be read, and in which state each app is."""

    status: Literal["ready"]
    apps: Mapping[str, str]


def health(call: Call) -> Health:
    """That the server answers; it reads nothing."""
    del call
    return Health()


def readiness(call: Call) -> Readiness:
    """Whether rows of every app can be read; 503 with the reason if not, or if no app has run yet.

    A stopped or failed app is ready: its last rows are served, with their age.
    """
    states = {}
    for name in call.home.names():
        try:
            app = call.home.app(name)
            app.views.tables()
            states[name] = app.status().state
        except KeyfoldError as error:
            hint = error.hint or "keyfold status"
            raise QueryError(error.what, reason="not_ready", where=name, hint=hint) from None
    if not states and isinstance(call.home, GrantedHome):
        # What else the home has is not for it to know.
        hint = "a token with other --tables, or one of those once its app runs"
        raise QueryError("no app that the token may read", reason="not_ready", hint=hint)
    if not states:
        hint = "keyfold run APP.py"
        raise QueryError("no app has run yet", reason="not_ready", where=call.home.directory, hint=hint)
    return Readiness("ready", states)


ROUTES: Final = (
    Route("health", "/healthz", health, Health, role="anyone"),
    Route("readiness", "/readyz", readiness, Readiness, role="reader"),
)
