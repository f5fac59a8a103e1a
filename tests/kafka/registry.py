"""A Schema Registry on loopback: the part of its REST protocol that readers use, and registering."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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

    def answer(self, path: str) -> dict[str, Any] | None:
        """What a path has, as the registry's documentation says."""
        self.asked.append(path)
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                return self.schemas.get(int(number))
            case ["subjects", subject, "versions", version]:
                return self.schemas[self.subjects[subject][int(version) - 1]]
        return None


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry that answers on loopback."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = registry.answer(self.path)
            body = json.dumps(found or {"error_code": 40403, "message": "Schema not found"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
