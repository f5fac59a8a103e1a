"""The one body of all errors, and the HTTP status of each."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from keyfold.errors import STATUS, DeclarationError, KeyfoldError, QueryError, RunError
from keyfold.read.changes import PositionGone
from keyfold.read.past import PastGone
from keyfold.read.wanted import BehindPosition

_LOG: Final = logging.getLogger("keyfold.server")


class KeyNotFound(QueryError):
    """No row has the key; `near` are keys that look like it."""

    def __init__(self, what: str, *, near: list[str], **parts: Any) -> None:
        super().__init__(what, reason="not_found", **parts)
        self._near = near

    @property
    def near(self) -> list[str]:
        """Keys that look like the given one, as paths have them."""
        return self._near


def status_of(error: BaseException) -> int:
    """The HTTP status of an error."""
    if isinstance(error, QueryError):
        return error.status
    if isinstance(error, DeclarationError):
        return STATUS["bad_request"]
    return STATUS["not_ready"] if isinstance(error, RunError) else 500


def error_document(error: BaseException, freshness: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An error as data; `freshness`: how far the table is that was asked for, if it is known."""
    status = status_of(error)
    if status == 500:
        # Its text may have anything in it, so it is for the log alone.
        _LOG.error("a request failed", exc_info=error)
    found = {"reason": _reason(error, status), "status": status, **_parts(error)}
    oldest: dict[str, Any] = (
        {"oldest": f"{error.where}@{error.oldest}"} if isinstance(error, PositionGone) else {}
    )
    if isinstance(error, PastGone):
        oldest = {"oldest_batch": error.oldest}
    present = {"present": error.present} if isinstance(error, BehindPosition) else {}
    return {"error": found, **oldest, **present, **(freshness or {})}


def _parts(error: BaseException) -> dict[str, Any]:
    if isinstance(error, KeyfoldError):
        names = ("what", "where", "given", "hint", "near")
        return {name: getattr(error, name) for name in names}
    what, hint = f"keyfold failed: {type(error).__name__}", "the log of the server has the traceback"
    return {"what": what, "where": None, "given": None, "hint": hint, "near": []}


def _reason(error: BaseException, status: int) -> str:
    if isinstance(error, QueryError):
        return error.reason
    return "failed" if status == 500 else "bad_request" if status == 400 else "not_ready"
