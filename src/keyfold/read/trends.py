"""The figures of tables over time: a sample a minute, which a run keeps in `sizes.json` beside its status.

The file is the driver's own and can be lost. Of old samples, fewer and fewer are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from keyfold.engine.storage.layout import AppHome

FILE: Final = "sizes.json"


@dataclass(frozen=True)
class Sample:
    """A table at a moment: its rows, and the bytes of its state in RocksDB, as `status` has them.

    Files of earlier versions have no more than these.
    """

    at: float
    """In seconds since the epoch."""
    batch: int
    rows: int | None
    bytes: int | None
    read: int | None = None
    """Rows that this run had read."""
    batch_ms: int | None = None
    late: int | None = None
    rejected: int | None = None
    lag_seconds: float | None = None
    messages_left: int | None = None


@dataclass(frozen=True)
class TrendPoint:
    """The figures of a table at a moment; late and rejected rows of all runs until then."""

    at: datetime
    batch: int
    rows_per_second: float | None
    """On average since the point before; null at the first point of a run."""
    batch_ms: int | None
    keys: int | None
    state_bytes: int | None
    late: int | None
    rejected: int | None
    lag_seconds: float | None
    """How far the watermark was behind."""
    messages_left: int | None


@dataclass(frozen=True)
class Trends:
    """The figures of an app's tables, oldest first: a point for each minute in which a batch ended."""

    app: str
    tables: Mapping[str, Sequence[TrendPoint]]


def read(home: AppHome) -> dict[str, list[Sample]]:
    """All samples by table, oldest first; none if the file is missing or damaged."""
    try:
        found = json.loads((home.local / FILE).read_text("utf-8"))
        return {table: [Sample(*one) for one in samples] for table, samples in found["tables"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def of(app: str, home: AppHome, last: timedelta | None = None) -> Trends:
    """What is recorded of an app, of all its time or the last part of it."""
    since = None if last is None else (datetime.now(UTC) - last).timestamp()
    found = {
        table: [point for point in _points(samples) if since is None or point.at.timestamp() >= since]
        for table, samples in read(home).items()
    }
    return Trends(app, found)


def of_one_life(samples: Sequence[Sample]) -> list[Sample]:
    """The samples since the table began: after a reset or a restore, batch numbers start over."""
    begun = max((n for n in range(1, len(samples)) if samples[n].batch < samples[n - 1].batch), default=0)
    return list(samples[begun:])


def _points(samples: Sequence[Sample]) -> Iterator[TrendPoint]:
    before: Sample | None = None
    for one in of_one_life(samples):
        yield TrendPoint(
            at=datetime.fromtimestamp(one.at, UTC),
            batch=one.batch,
            rows_per_second=None if before is None else _speed(before, one),
            batch_ms=one.batch_ms,
            keys=one.rows,
            state_bytes=one.bytes,
            late=one.late,
            rejected=one.rejected,
            lag_seconds=one.lag_seconds,
            messages_left=one.messages_left,
        )
        before = one


def _speed(before: Sample, now: Sample) -> float | None:
    # A run counts from zero; how long it took to its first sample is not known.
    if before.read is None or now.read is None or now.read < before.read or now.at <= before.at:
        return None
    return round((now.read - before.read) / (now.at - before.at), 3)
