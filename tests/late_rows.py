"""Late rows in the log of a table, for tests that start no JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from tests.log_files import publish

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def said(raw: str, end: datetime, watermark: datetime | None, missed: int = 1, **late: Any) -> dict[str, Any]:
    """What the kernel says of a row whose newest missed window of a minute ended then."""
    starts = [end - MINUTE * (n + 1) for n in reversed(range(missed))]
    return {
        "kind": "late",
        "reason": "its window is closed",
        "raw": raw,
        "stream": "orders",
        "event_time": micros(end - MINUTE) + 500_001,
        "watermark": None if watermark is None else micros(watermark),
        "missed": missed,
        "last_end": micros(end),
        "windows": [{"start": micros(start), "end": micros(start + MINUTE)} for start in starts],
        **late,
    }


def put(home: TableHome, batch: int, *rows: dict[str, Any]) -> None:
    publish(TableLog(home.log), batch, {"late": rows})
