"""`/api/openapi.json`: the description of all addresses."""

from __future__ import annotations

from typing import Any, Final

from keyfold.server.route import Call, Route


def get_openapi(call: Call) -> dict[str, Any]:
    """The OpenAPI document of all addresses."""
    from keyfold.server.openapi import openapi
    from keyfold.server.route_table import ROUTES as ALL

    del call
    return openapi(ALL)


ROUTES: Final = (Route("get_openapi", "/api/openapi.json", get_openapi, dict, role="reader"),)
