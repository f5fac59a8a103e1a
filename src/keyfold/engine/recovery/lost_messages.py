"""Finds messages that were deleted before a table had read them, when it starts.

A topic that was deleted and created again has the same name, and may have more messages than were read of the
old one. But it has another id: `topics.json`, beside the checkpoint, records to which topics its positions
belong.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from keyfold.engine.sources.kafka import TopicOffsets
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.source_offsets import Messages, MessagesOffset
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import QueryFailed
from keyfold.plan.nodes import Source

_LOG: Final = logging.getLogger("keyfold")
_AGAIN: Final = "the topic was deleted and made again"


def check(
    app: str, name: str, streams: Iterable[Source], home: TableHome, topics: Mapping[str, TopicOffsets]
) -> None:
    """Refuses to skip lost messages, or warns of them, depending on the stream's `on_data_loss`.

    `name`: the table that reads the streams, or the stream itself where it has a log.
    """
    batch, recorded = home.planned_batch(), _read_recorded(home)
    if batch is None:
        return
    committed, begun = (list(_positions(home, at)) for at in (home.committed_batch(), batch))
    for stream in streams:
        kafka = stream.connector.kafka
        if kafka is None or stream.name not in topics:
            continue
        now = topics[stream.name]
        again = {topic for topic, id_ in now.ids.items() if recorded.get(topic, id_) != id_}
        lost = [*_lost_messages(committed, now, again), *_of_another_topic(begun, now, again)]
        if lost and kafka.on_data_loss == "fail":
            raise failure(app, name, batch, stream.name, "\n".join(lost))
        for line in lost:
            _LOG.warning("%s.%s: messages of stream %s are lost: %s", app, name, stream.name, line)


def record(streams: Iterable[Source], home: TableHome, topics: Mapping[str, TopicOffsets]) -> None:
    """Records the topics to which the checkpoint's positions belong, including those of the next batch."""
    before = _read_recorded(home)
    read = [topics[stream.name].ids for stream in streams if stream.name in topics]
    known = before if home.planned_batch() is not None else {}
    now = {**known, **{topic: id_ for ids in read for topic, id_ in ids.items()}}
    if now != before:
        _file(home).put(json.dumps(now).encode())


def failure(app: str, table: str, batch: int | None, stream: str | None, given: object) -> QueryFailed:
    """The error for a table whose next messages are gone."""
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


def _file(home: TableHome) -> StoredFile:
    return StoredFile(home.storage, "topics.json")


def _read_recorded(home: TableHome) -> dict[str, str]:
    try:
        return dict(json.loads(_file(home).read_bytes()))
    except FileNotFoundError:
        return {}


def _positions(home: TableHome, batch: int | None) -> Iterator[tuple[str, str, int]]:
    """The next message of each partition of a topic after a batch."""
    offsets = () if batch is None else home.spark.offsets(batch)
    for offset in offsets:
        if isinstance(offset, MessagesOffset):
            for topic, partitions in offset.next.items():
                for number, next_one in partitions.items():
                    yield topic, number, next_one


def _lost_messages(
    read: Iterable[tuple[str, str, int]], topics: TopicOffsets, again: Collection[str]
) -> Iterator[str]:
    """The lost messages of topics that are still the same, as far as their ids tell."""
    for topic, number, next_one in read:
        first, last = _offset(topics.first, topic, number), _offset(topics.last, topic, number)
        if first is None or last is None:
            # An unknown topic is another stream's, or a pattern's; Spark reports missing ones.
            if topic in topics.last:
                gone = f"the partition is gone, and was read up to offset {next_one}"
                yield f"{topic}-{number}: {gone}: {_AGAIN}"
        elif topic not in again and first > next_one:
            yield f"{topic}-{number}: offsets {next_one} to {first - 1} of {first - next_one} messages"
        elif topic not in again and last < next_one:
            ends = f"it ends at offset {last}, and was read up to offset {next_one}"
            yield f"{topic}-{number}: {ends}: {_AGAIN}"


def _of_another_topic(
    begun: Iterable[tuple[str, str, int]], topics: TopicOffsets, again: Collection[str]
) -> Iterator[str]:
    """Positions, including those of an unfinished batch, in topics that have been replaced by now."""
    for topic, number, next_one in begun:
        if topic in again and _offset(topics.last, topic, number) is not None and next_one > 0:
            read = f"it was read up to offset {next_one} of a topic with another id"
            yield f"{topic}-{number}: {read}: {_AGAIN}, or the servers are those of another cluster"


def _offset(offsets: Messages, topic: str, number: str) -> int | None:
    return offsets.get(topic, {}).get(number)
