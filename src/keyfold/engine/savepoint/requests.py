"""Requests to a running app for a savepoint, by another process: files in the app's local directory.

A request is `requests/<id>.json`; the app answers with `requests/<id>.done`.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from keyfold import private
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import current
from keyfold.errors import KeyfoldError, RunError

_POLL_SECONDS: Final = 0.5
Answer = Callable[[str, Sequence[str], str | None], dict[str, Any]]
"""Makes a savepoint, given its name, tables and reason; returns the answer for the other process."""


def ask(home: AppHome, name: str, tables: Sequence[str], why: str | None) -> dict[str, Any]:
    """Asks the process that runs the app, and waits for its answer."""
    directory, number = private.directory(home.local / "requests"), uuid.uuid4().hex
    request, answer = directory / f"{number}.json", directory / f"{number}.done"
    replace_file(request, json.dumps({"name": name, "tables": list(tables), "why": why}).encode())
    try:
        wait_until(lambda: answer.exists() or current(home) is None, float("inf"), pause=0.1)
        found = json.loads(answer.read_bytes())
    except FileNotFoundError:
        raise RunError(
            "the app stopped before the savepoint was complete; nothing was changed",
            app=home.path.name,
            hint="repeat the command without --live",
        ) from None
    finally:
        for file in (request, answer):
            file.unlink(missing_ok=True)
    if "error" in found:
        raise RunError(found["error"], app=home.path.name, given=found["given"], hint=found["hint"])
    return dict(found)


class Requests:
    """The thread of a running app that answers requests."""

    def __init__(self, directory: Path, answer: Answer) -> None:
        self._directory, self._answer = directory, answer
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-requests", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, after the current request."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            for request in sorted(self._directory.glob("[!.]*.json")):
                # Requests that have timed out, or can't be read, are ignored.
                with suppress(OSError, ValueError, LookupError):
                    asked = json.loads(request.read_bytes())
                    replace_file(request.with_suffix(".done"), json.dumps(self._reply(asked)).encode())
                    request.unlink(missing_ok=True)

    def _reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(asked["name"], asked["tables"], asked["why"])
        except KeyfoldError as error:
            return {"error": error.what, "given": error.given, "hint": error.hint}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}", "given": None, "hint": None}
