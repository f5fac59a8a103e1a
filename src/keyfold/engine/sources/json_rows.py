"""Python rows as files of JSON lines that a stream reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from keyfold import private
from keyfold.engine.storage.files import replace_file


def encode(rows: Iterable[Mapping[str, Any] | str]) -> str:
    """Rows as JSON lines that Spark's JSON reader understands; strings are taken as lines as they are."""
    return "".join(f"{row if isinstance(row, str) else json.dumps(row, default=_plain)}\n" for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        # A naive datetime stays naive: the reader takes it for UTC, and timestamp_ntz accepts no zone.
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
    """Adds a file to the directory unless it exists; returns the directory."""
    private.directory(directory)
    target = directory / f"{name}.json"
    if not target.exists():
        replace_file(target, lines.encode(), durable=False)
    return directory
