"""Converts values to JSON and to text."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final


def plain(value: Any) -> Any:
    """A value for JSON: timestamps in ISO 8601, decimals as strings, bytes in base64, NaN as "NaN"."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Mapping):
        return {_name(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _length(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _length(value: timedelta) -> str:
    sign = "-" if value < timedelta() else ""
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    return f"{sign}PT{seconds}{f'.{micros:06d}'.rstrip('0') if micros else ''}S"


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _name(key: Any) -> str:
    return key if isinstance(key, str) else word(plain(key))


def word(value: Any) -> str:
    """A value as text: strings as they are, other values as JSON."""
    return value if isinstance(value, str) else dumps(value)


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def utf8(value: Any) -> bytes:
    """A value that `plain` has made as standard JSON in UTF-8, for other programs."""
    # A lone surrogate, which an error may quote, becomes its escape in JSON.
    return _ENCODE(value).encode("utf-8", "backslashreplace")


def dumps(value: Any, indent: int | None = None) -> str:
    """Standard JSON, in characters that stdout can print."""
    ascii_only = not (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, indent=indent)
