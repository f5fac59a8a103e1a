"""Python rows as files that a stream reads: one JSON object a line, a file that appears whole."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from keyfold import private


def encode(rows: Iterable[Mapping[str, Any] | str]) -> str:
    """Rows as JSON lines in the spelling that Spark's JSON reader takes; text goes through as it is."""
    return "".join(f"{row if isinstance(row, str) else json.dumps(row, default=_plain)}\n" for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        # Without a zone: as it is, which the reader takes for UTC, and which timestamp_ntz insists on.
        zoned = value.astimezone(UTC) if value.tzinfo else value
        return zoned.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"a row can't hold a {type(value).__name__}: {value!r}")


def put(directory: Path, name: str, lines: str) -> Path:
    """A new file in the directory, written aside and renamed; returns the directory."""
    private.directory(directory)
    target = directory / f"{name}.json"
    if not target.exists():
        aside = directory / f".{name}.{os.getpid()}"
        private.write(aside, lines.encode())
        os.replace(aside, target)
    return directory
