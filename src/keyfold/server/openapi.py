"""The OpenAPI document, made from the route table and the dataclasses that routes answer."""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Final

from keyfold.errors import STATUS
from keyfold.server import freshness
from keyfold.server.answers import EVENTS, JSON
from keyfold.server.json_schema import Schemas
from keyfold.server.parameters import Parameter
from keyfold.server.route import Route
from keyfold.server.routes.side import KINDS

_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_PATH_HELP: Final = {
    "app": "The name of an app.",
    "table": "The name of a table, in any case.",
    "key": "The parts of the key, each percent-encoded, separated by slashes.",
    "kind": "The kind of rows.",
}
MEANS: Final = {
    400: "A parameter, a key or the body is wrong.",
    401: "The home has tokens, and the request shows none, or one that is unknown, revoked or expired.",
    403: "The token may not ask this, or the request names another host, or comes from another origin.",
    404: "There is no such app, table or key; `near` has names like it.",
    405: "The address has another method.",
    406: "No format that the client accepts.",
    409: "The view is behind `at_least` or `after`; the body says where it is, for `after` in `present`.",
    410: "The log no longer has that position, or rows as of that batch; the body has the oldest one.",
    412: "The view is older than `max_age`; the body has its age.",
    413: "The body is too large, or too many changes are to be folded for `as_of`.",
    408: "The headers or the body did not come in time.",
    414: "The address is too long.",
    431: "The headers are too long.",
    429: "Too many requests, or too many feeds; `Retry-After` says when to come again.",
    503: "The views can't be read now, such as before the first start of the app.",
}
_HEADERS: Final = {
    "keyfold-batch": ("The last batch that the view shows.", {"type": "integer"}),
    "keyfold-position": (
        "The position behind that batch, for `after` and the change feed.",
        {"type": "string"},
    ),
    "keyfold-watermark": ("The watermark as of that batch.", {"type": "string"}),
    "keyfold-age": ("Seconds since that batch was committed.", {"type": "number"}),
}
ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Any error. About a table it also has batch, position, watermark and age of its view.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["reason", "status", "what", "where", "given", "hint", "near"],
            "properties": {
                "reason": {"type": "string", "enum": [*STATUS, "failed"]},
                "status": {"type": "integer"},
                "what": {"type": "string", "description": "What is wrong."},
                "where": {"type": ["string", "null"]},
                "given": {"type": ["string", "null"]},
                "hint": {"type": ["string", "null"], "description": "What to do."},
                "near": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names like the given one.",
                },
            },
        },
        "oldest": {"type": "string", "description": "The first position that the log has."},
        "oldest_batch": {
            "type": ["integer", "null"],
            "description": "The first batch of which `as_of` can read the rows asked for, if there is one.",
        },
        "present": {
            "type": "object",
            "description": "What the view has of `after`, by partition or table; null if nothing.",
            "additionalProperties": {"type": ["string", "null"]},
        },
        "batch": {"type": ["integer", "null"]},
        "position": {"type": "string"},
        "watermark": {"type": ["string", "null"]},
        "age": {"type": ["number", "null"]},
    },
}


def openapi(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document of some routes."""
    schemas = Schemas()
    schemas.components["Error"] = ERROR
    paths: dict[str, Any] = {}
    for route in routes:
        for number, path in enumerate(route.paths):
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, number, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "keyfold",
            "version": _version(),
            "description": "The rows of keyfold's apps, from views and logs. Addresses without an app are a "
            "short form for a home with one app.",
        },
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.components.items()))},
    }


@lru_cache(maxsize=1)
def _version() -> str:
    from keyfold import __version__

    return __version__


def _operation(route: Route, path: str, number: int, schemas: Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name + ("_short" if number else ""),
        "summary": route.summary,
        "description": route.description,
        "parameters": [
            *(_in_path(name) for name in _IN_PATH.findall(path)),
            *(_in_query(one) for one in route.accepted),
        ],
        "responses": _responses(route, schemas),
    }
    if route.filters:
        found["parameters"].append(_FILTERS)
    if route.cached:
        found["parameters"].append(_IF_NONE_MATCH)
    if EVENTS in route.media:
        found["parameters"].append(_LAST_EVENT_ID)
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": route.body}}}
    return found


def _in_path(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if name == "kind":
        schema = {"type": "string", "enum": list(KINDS)}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_HELP[name],
        "schema": schema,
    }


def _in_query(one: Parameter) -> dict[str, Any]:
    schema = {"type": "array", "items": one.schema} if one.many else one.schema
    found: dict[str, Any] = {"name": one.name, "in": "query", "description": one.help, "schema": schema}
    if one.required:
        found["required"] = True
    return found if one.example is None else {**found, "example": one.example}


_FILTERS: Final = {
    "name": "filters",
    "in": "query",
    "description": "Filters by column: `region=eu`, or with an operator `n.gt=5`.",
    "style": "form",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
}
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of an earlier answer: 304 if the rows are still the same.",
    "schema": {"type": "string"},
}


_LAST_EVENT_ID: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was seen; `position` comes first.",
    "schema": {"type": "string"},
}


def _responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    document = {} if route.answer is None else schemas.of(route.answer)
    others = {"type": "string"} if EVENTS in route.media else {}
    content = {media: {"schema": document if media == JSON else others} for media in route.media}
    done: dict[str, Any] = {"description": _first_line(route.answer), "content": content}
    if route.of_table:
        done["headers"] = {
            name: {"description": text, "schema": schema} for name, (text, schema) in _HEADERS.items()
        }
    found: dict[str, Any] = {"200": done}
    if route.cached:
        found["304"] = {"description": "The client has these rows already."}
    for status in _failures(route):
        found[str(status)] = {
            "description": MEANS[status],
            "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
    return found


def _failures(route: Route) -> list[int]:
    """The statuses of the errors that a route can answer."""
    found = {400, 403, 408, 414, 429, 431, 503}
    if route.role != "anyone":
        found.add(401)
    if "{" in route.path or EVENTS in route.media:
        found.add(404)
    if EVENTS in route.media:
        found.add(410)
    if route.of_table:
        found |= {409, 410, 412}
    if len(route.media) > 1:
        found.add(406)
    if route.body is not None or freshness.AS_OF in route.parameters:
        found.add(413)
    return sorted(found)


def _first_line(kind: Any) -> str:
    text = inspect.getdoc(kind) if is_dataclass(kind) else None
    return (text or "The answer.").partition("\n")[0]
