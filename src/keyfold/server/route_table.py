"""The route table: every address that is served, for Starlette, for OpenAPI and for the docs."""

from __future__ import annotations

from typing import Final

from keyfold.server.route import Route
from keyfold.server.routes import (
    apps,
    changes,
    description,
    health,
    keys,
    metrics,
    rows,
    side,
    tables,
    topology,
)

ROUTES: Final[tuple[Route, ...]] = (
    *health.ROUTES,
    *metrics.ROUTES,
    *description.ROUTES,
    *apps.ROUTES,
    *topology.ROUTES,
    *tables.ROUTES,
    *rows.ROUTES,
    *keys.ROUTES,
    *side.ROUTES,
    *changes.ROUTES,
)
