"""The OpenAPI document: made from the route table, true of every answer, and all of it documented."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from keyfold.read.documents import Document
from keyfold.server.json_schema import Schemas
from keyfold.server.openapi import openapi
from keyfold.server.route_table import ROUTES
from keyfold.server.serving import Serving
from tests.server.conftest import Get

# Names of the home, so that more than errors is answered; and others.
NAMES = {
    "app": ["shop", "SHOP", "none"],
    "table": ["totals", "pairs", "windows", "kinds", "none"],
    "key": ["eu", "5/-2.0", "5", "x", "%2F"],
    # Nobody is to be waited for.
    "wait": ["0ms", "2ms"],
    "as_of": ["0", "1", "2", "2026-01-01", "2099-01-01T00:00:00Z", "never"],
    "after": ["orders/3@1234", "shop.totals@1", "shop.totals@2e1,shop.totals@0", "shop.none@1", "x"],
}
DOCUMENT = openapi(ROUTES)


def with_names(document: Mapping[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(dict(document))
    for methods in found["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["name"] in NAMES:
                    names = {"type": "string", "enum": NAMES[parameter["name"]]}
                    many = parameter["schema"]["type"] == "array"
                    parameter["schema"] = {"type": "array", "items": names} if many else names
                    parameter.pop("example", None)
    return found


# A view that is too old or behind is said before a name is looked for.
REJECTED = {"negative_data_rejection": {"expected-statuses": ["4xx", "503"]}}
# The short forms are the same routes; a change feed has no end.
SCHEMA = schemathesis.openapi.from_dict(
    with_names(DOCUMENT), config=schemathesis.Config.from_dict({"checks": REJECTED})
).exclude(path_regex="^/api/(tables/|changes)")


@SCHEMA.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_described(case: schemathesis.Case, server: Serving) -> None:
    # uvicorn itself refuses, in plain text, a longer address than it reads.
    assume(sum(len(quote(str(value))) for value in case.query.values()) < 1 << 15)
    case.call_and_validate(
        base_url=server.url,
        # What fits the types may still be no column, no table and no cursor; and 503 is an answer.
        excluded_checks=[positive_data_acceptance, not_a_server_error],
    )


def test_a_server_error_is_none_of_the_described_answers() -> None:
    statuses = {
        int(status)
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        for status in operation["responses"]
    }
    assert 500 not in statuses
    assert statuses >= {200, 304, 400, 403, 404, 406, 409, 412, 413, 503}


def test_the_document_is_served(get: Get) -> None:
    assert get("/api/openapi.json").json == DOCUMENT


def test_every_route_and_parameter_is_described() -> None:
    assert {path for route in ROUTES for path in route.paths} == set(DOCUMENT["paths"])
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)
    for route in ROUTES:
        assert re.fullmatch(r"\S.*[.;]", route.summary), route.name
        assert route.handle.__doc__, route.name
        assert all(one.help.endswith(".") for one in route.accepted), route.name


def test_every_document_says_what_it_is() -> None:
    assert [name for name, one in DOCUMENT["components"]["schemas"].items() if not one["description"]] == []


@dataclass(frozen=True)
class Inner(Document):
    """Inside."""

    n: int = 0


@dataclass(frozen=True)
class Outer:
    """Outside."""

    name: str
    """Its name."""
    kind: Literal["a", "b"]
    at: datetime | None
    inner: Mapping[str, Inner]
    many: Sequence[float]
    anything: Any


def test_schemas_follow_the_annotations() -> None:
    schemas = Schemas()
    assert schemas.of(Outer) == {"$ref": "#/components/schemas/Outer"}
    outer = schemas.components["Outer"]
    assert outer["properties"] == {
        "name": {"type": "string", "description": "Its name."},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "inner": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Inner"}},
        "many": {"type": "array", "items": {"type": "number"}},
        "anything": {},
    }
    assert outer["required"] == ["name", "kind", "at", "inner", "many", "anything"]
    # A document that another version has written may lack fields.
    assert "required" not in schemas.components["Inner"]
    with pytest.raises(TypeError, match="no JSON schema"):
        schemas.of(object)
