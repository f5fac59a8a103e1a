"""Builds the ASGI app of a home from the route table."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route as Path
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from keyfold.errors import QueryError, near
from keyfold.read.tokens import TokenReader
from keyfold.server.auth.guard import Guard
from keyfold.server.auth.policy import Policy
from keyfold.server.console.static import Console
from keyfold.server.endpoint import Endpoint, error_response
from keyfold.server.granted.home import GrantedHomes
from keyfold.server.metrics.timed import Timed
from keyfold.server.point_reads import PointReads
from keyfold.server.route import Route
from keyfold.server.route_table import ROUTES
from keyfold.server.served_home import ServedHome


def application(home: ServedHome, policy: Policy, tokens: TokenReader) -> ASGIApp:
    """The ASGI app that serves a home to those who may read it."""
    homes = GrantedHomes(home)
    paths = [
        Path(_starlette(path), Endpoint(route, homes), methods=[route.method], name=route.name)
        for route in ROUTES
        for path in route.paths
    ]
    router = Router(paths, redirect_slashes=False, default=_Unknown(ROUTES))
    guarded = Guard(PointReads(Console(_Methods(router, paths)), homes), policy, tokens)
    return Timed(guarded, home.requests)


def _starlette(path: str) -> str:
    """A path of the route table as Starlette has it: a key may have several parts."""
    return path.replace("{key}", "{key:path}")


class _Methods:
    """Answers a known address with another method by the body of all errors."""

    def __init__(self, app: ASGIApp, paths: Sequence[Path]) -> None:
        self._app, self._paths = app, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = [path for path in self._paths if path.path_regex.match(scope["path"])]
        allowed = sorted({method for path in found for method in path.methods or ()})
        app = self._app
        if found and scope["method"] not in allowed:
            given, hint = scope["method"], ", ".join(allowed)
            error = QueryError(
                f"{scope['path']} has no {given}", reason="not_allowed", given=given, hint=hint
            )
            app = error_response(error, headers={"allow": ", ".join(allowed)})
        await app(scope, receive, send)


class _Unknown:
    """Answers an unknown address by the body of all errors, with an address that looks like it."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._paths = [path for route in routes for path in route.paths]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        suggested = near(path, self._paths, cutoff=0.4)
        hint = f"did you mean {suggested!r}?" if suggested else "/api/openapi.json lists all addresses"
        error = QueryError("nothing is served at this address", reason="not_found", given=path, hint=hint)
        await error_response(error)(scope, receive, send)
