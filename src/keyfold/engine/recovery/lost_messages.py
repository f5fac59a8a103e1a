"""Messages that were deleted before a table had read them, found when it starts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from keyfold.engine.sources.topic_wait import TopicOffsets
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import QueryFailed
from keyfold.plan.nodes import Source

_LOG: Final = logging.getLogger("keyfold")
_AGAIN: Final = "the topic was deleted and made again"


def check(
    app: str, name: str, streams: Iterable[Source], home: TableHome, topics: Mapping[str, TopicOffsets]
) -> None:
    """Refuses to go on past lost messages, or warns of them, as the stream's `on_data_loss` says.

    `name`: the table that reads the streams, or the stream itself where it has a log.
    """
    batch = home.committed()
    if batch is None:
        return
    read = [offset for offset in home.spark.offsets(batch) if isinstance(offset, dict)]
    for stream in streams:
        kafka = stream.connector.kafka
        if kafka is None or stream.name not in topics:
            continue
        lost = list(_lost(read, topics[stream.name]))
        if lost and kafka.on_data_loss == "fail":
            raise failure(app, name, batch, stream.name, "\n".join(lost))
        for line in lost:
            _LOG.warning("%s.%s: messages of stream %s are lost: %s", app, name, stream.name, line)


def failure(app: str, table: str, batch: int | None, stream: str | None, given: object) -> QueryFailed:
    """The error of a table whose next messages are gone."""
    of = "" if stream is None else f" of stream {stream}"
    readers = " --with-readers" if stream == table else ""
    return QueryFailed(
        f"messages{of} were deleted from Kafka before {app}.{table} had read them",
        app=app,
        table=table,
        batch=batch,
        given=given,
        hint="to continue without them, declare on_data_loss='warn'; or `keyfold reset "
        f"{app}.{table}{readers}`, after which it starts from the oldest message in the topic; the topic's "
        "retention decides how long messages are kept",
    )


def _lost(read: list[dict[str, Any]], topics: TopicOffsets) -> Iterator[str]:
    for offsets in read:
        for topic, partitions in offsets.items():
            for number, next_one in partitions.items():
                yield from _of_partition(f"{topic}-{number}", next_one, topic, number, topics)


def _of_partition(name: str, next_one: int, topic: str, number: str, topics: TopicOffsets) -> Iterator[str]:
    first = topics.first.get(topic, {}).get(number)
    last = topics.last.get(topic, {}).get(number)
    if first is None or last is None:
        # A topic that is not known is another stream's, or of a pattern; Spark reports those that are gone.
        if topic in topics.last:
            yield f"{name}: the partition is gone, and was read up to offset {next_one}: {_AGAIN}"
        return
    if first > next_one:
        yield f"{name}: offsets {next_one} to {first - 1} of {first - next_one} messages"
    elif last < next_one:
        yield f"{name}: it ends at offset {last}, and was read up to offset {next_one}: {_AGAIN}"
