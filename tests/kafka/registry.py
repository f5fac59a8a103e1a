"""A Schema Registry on loopback: the part of its REST protocol that its clients use to read and register."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from tests.kafka.json_server import JsonHandler, answering


class Registry:
    """Schemas by id and by subject, and what was asked for."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.url = ""

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """A new version of a subject; returns the id."""
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": json.dumps(schema), **more}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def accept(self, subject: str, posted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a schema that is to be registered; equal schemas have one id."""
        schema = json.loads(posted["schema"])
        known = self.subjects.get(subject, [])
        for number in known:
            if json.loads(self.schemas[number]["schema"]) == schema:
                return 200, {"id": number}
        if known and (why := unreadable(json.loads(self.schemas[known[-1]]["schema"]), schema)):
            message = f"Schema being registered is incompatible with an earlier schema for {subject}: {why}"
            return 409, {"error_code": 409, "message": message}
        return 200, {"id": self.register(subject, schema)}

    def answer(self, path: str) -> dict[str, Any] | None:
        """What a path has, as the registry's documentation says."""
        self.asked.append(path)
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "ids", number]:
                return self.schemas.get(int(number))
            case ["subjects", subject, "versions", version]:
                return self.schemas[self.subjects[subject][int(version) - 1]]
        return None


def unreadable(written: Any, reader: Any) -> str:
    """Why records of one schema can't be read with another, as far as tables' schemas differ; else empty."""
    if not (isinstance(written, dict) and isinstance(reader, dict) and "fields" in reader):
        return "" if written == reader else f"{written} is not {reader}"
    before = {field["name"]: field["type"] for field in written["fields"]}
    for field in reader["fields"]:
        if field["name"] not in before:
            if "default" not in field:
                return f"field {field['name']} has no default"
        elif before[field["name"]] != field["type"]:
            return f"field {field['name']} has another type"
    return ""


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry that answers on loopback."""
    registry = Registry()

    class Handler(JsonHandler):
        content_type = "application/vnd.schemaregistry.v1+json"

        def do_GET(self) -> None:
            found = registry.answer(self.path)
            missing = {"error_code": 40403, "message": "Schema not found"}
            self.send(200 if found else 404, found or missing)

        def do_POST(self) -> None:
            posted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            _, subject, _ = self.path.partition("?")[0].strip("/").split("/")
            self.send(*registry.accept(unquote(subject), posted))

    with answering(Handler) as registry.url:
        yield registry
