"""How far a table is behind its topics, and which partition holds its watermark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from keyfold.kernel.api import PartitionClock
from keyfold.read.metrics import SlowestPartition


def message_metrics(progress: Mapping[str, Any], clocks: Mapping[str, PartitionClock]) -> dict[str, Any]:
    """The metrics that tables of Kafka streams have beside the others; None where they have no meaning."""
    return {**messages_left(progress), "watermark_held_by": _held_by(clocks)}


def messages_left(progress: Mapping[str, Any]) -> dict[str, Any]:
    """How many messages a query has not read yet; None if it reads no topic, but perhaps a stream's log."""
    lag = dict(_lag(progress))
    return {
        "messages_left": sum(lag.values()) if lag or _topics(progress) else None,
        "messages_left_by_partition": lag,
    }


def _topics(progress: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What Spark reports of the sources that are topics of Kafka."""
    found = progress.get("sources") or []
    return [source for source in found if source["description"].startswith("KafkaV2[")]


def _lag(progress: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for source in _topics(progress):
        read = source.get("endOffset") or {}
        for topic, partitions in (source.get("latestOffset") or {}).items():
            for number, last in partitions.items():
                left = last - read.get(topic, {}).get(number, 0)
                if left > 0:
                    yield f"{topic}-{number}", left


def _held_by(clocks: Mapping[str, PartitionClock]) -> SlowestPartition | None:
    """The slowest partition of all streams: its newest event time, and since when it holds the watermark."""
    found = []
    for stream, clock in clocks.items():
        known = json.loads(clock.report())
        if known["held_by"] is not None:
            found.append({"stream": stream, **known["held_by"], "idle": known["idle"]})
    if not found:
        return None
    slowest = min(found, key=lambda held: held["newest"])
    newest, since = _moment(slowest.pop("newest")), _moment(slowest.pop("since"))
    return SlowestPartition(**slowest, newest=newest, since=since)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
