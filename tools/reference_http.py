"""The page of the HTTP API, for tools/reference.py, made from the route table."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any


def http_page() -> str:
    """Every address with its parameters and what it answers."""
    from keyfold.server.openapi import openapi
    from keyfold.server.route_table import ROUTES

    document = openapi(ROUTES)
    lines = [f"| [`{route.method} {route.path}`](#{_anchor(route)}) | {route.summary} |" for route in ROUTES]
    sections = [_section(route, document) for route in ROUTES]
    return "\n\n".join(
        [
            _HTTP,
            "\n".join([_HEAD, *lines]),
            _of_tables(),
            _ERRORS,
            "\n".join([_STATUS, *_statuses()]),
            *sections,
        ]
    )


def _anchor(route: Any) -> str:
    return route.name.replace("_", "-")


def _section(route: Any, document: dict[str, Any]) -> str:
    title = f"## {route.name.replace('_', ' ').capitalize()}"
    parts = [f"{title} {{#{_anchor(route)}}}", f"`{route.method} {route.path}`", route.description]
    if route.filters:
        parts.append("Parameters, beside filters by column:")
    if route.parameters:
        parts.append("\n".join(_parameter(one) for one in route.parameters))
    if route.body is not None:
        parts.append('The body is `{"keys": [...]}`.')
    if len(route.media) > 1:
        parts.append(f"Formats: {', '.join(f'`{media}`' for media in route.media)}.")
    schema = _answer(route, document)
    if schema is not None:
        lines = [
            _field(name, one) for name, one in schema["properties"].items() if not _of_every(route, name)
        ]
        parts += ["\n".join(["| field | type | |", "|---|---|---|", *lines])]
    return "\n\n".join(parts)


def _of_every(route: Any, name: str) -> bool:
    """Whether a field is in every answer about a table, and described once for all."""
    return route.of_table and name in ("app", "table", "batch", "position", "watermark", "age")


def _answer(route: Any, document: dict[str, Any]) -> dict[str, Any] | None:
    operation = document["paths"][route.path][route.method.lower()]
    schema = operation["responses"]["200"]["content"].get("application/json", {}).get("schema", {})
    reference = next(iter(schema.get("anyOf", [schema]))).get("$ref")
    return None if reference is None else document["components"]["schemas"][reference.rpartition("/")[2]]


def _parameter(one: Any) -> str:
    default = "" if one.default in (None, False) else f" Default: {one.default}."
    example = "" if one.example is None else f" Example: `{one.example}`."
    choices = one.schema.get("enum")
    words = f" One of {', '.join(f'`{word}`' for word in choices)}." if choices else ""
    return f"- `{one.name}`: {one.help}{words}{default}{example}"


def _field(name: str, schema: dict[str, Any]) -> str:
    text = schema.get("description", "").replace("|", "\\|")
    return f"| `{name}` | {_type(schema)} | {text} |"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    return "time" if schema.get("format") == "date-time" else schema.get("type", "any")


def _of_tables() -> str:
    from keyfold.server import freshness
    from keyfold.server.answers import OfTable
    from keyfold.server.docstrings import field_docs

    fields = "\n".join(
        f"| `{name}` | `Keyfold-{name.capitalize()}` | {text} |" for name, text in field_docs(OfTable).items()
    )
    return f"{_TABLES}\n{fields}\n\n{_BOUNDS}\n\n" + "\n".join(
        _parameter(one) for one in freshness.PARAMETERS
    )


def _statuses() -> Iterator[str]:
    from keyfold.errors import STATUS
    from keyfold.server.openapi import MEANS

    by_status = {status: reason for reason, status in STATUS.items()}
    yield from (f"| {status} | `{by_status[status]}` | {text} |" for status, text in sorted(MEANS.items()))


_HTTP = inspect.cleandoc("""
# HTTP API

`keyfold serve` and `keyfold run` serve the apps of a home; [Serve tables over HTTP](../how-to/serve.md) has
examples. `/api/openapi.json` describes the same as OpenAPI 3.1. Values are those of `keyfold rows --json`:
timestamps in ISO 8601 and UTC, decimals as strings, binaries in base64, NaN and infinities as strings.

In a home with one app, `/api/tables/...` is a short form of `/api/apps/{app}/tables/...`. Tables are found by
their names in any case.
""")
_HEAD = "| address | |\n|---|---|"
_TABLES = inspect.cleandoc("""
## Answers about a table

Every answer about a table, also an error, says how far its view is, in the document and in headers:

| field | header | |
|---|---|---|
""")
_BOUNDS = "All addresses of a table accept:"
_ERRORS = inspect.cleandoc("""
## Errors

All errors have one body:

```json
{"error": {"reason": "not_found", "status": 404, "what": "no table total in app shop", "where": null,
           "given": "total", "hint": "did you mean 'totals'?", "near": ["totals"]}}
```

`what` is wrong, `where`, what was `given`, what to do (`hint`), and names like the given one (`near`).
""")
_STATUS = "| status | reason | |\n|---|---|---|"
