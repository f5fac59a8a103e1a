"""Finds messages that were deleted before a table had read them, when it starts.

A topic that was deleted and created again has the same name, and may have more messages than were read of the
old one. But it has another id: `topics.json`, beside the checkpoint, records to which topics its positions
belong.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from keyfold.engine.sources.kafka import TopicOffsets
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.source_offsets import Messages, MessagesOffset
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import QueryFailed
from keyfold.plan.nodes import Source

_LOG: Final = logging.getLogger("keyfold")
_AGAIN: Final = "the topic was deleted and made again"
_EVERY: Final = ""
"""In place of a stream's name, where a record does not tell streams apart."""

_Ids = Mapping[str, dict[str, str]]
"""The ids of topics, by stream and topic."""
_Position = tuple[str, str, int]
"""A topic, a partition, and the offset of the next message."""


def check(
    app: str,
    name: str,
    sources: Sequence[Source | None],
    home: TableHome,
    topics: Mapping[str, TopicOffsets],
) -> None:
    """Refuses to skip lost messages, or warns of them, depending on the stream's `on_data_loss`.

    `name`: the table that reads the streams, or the stream itself where it has a log. `sources`: the stream
    of topics at each position of the offset log; None at those of other sources. `topics` by stream.
    """
    batch, recorded = home.planned_batch(), _read_recorded(home)
    if batch is None or not _streams(sources):
        return
    committed, begun = (_positions(home, at, sources) for at in (home.committed_batch(), batch))
    for stream in _streams(sources):
        kafka = stream.connector.kafka
        if kafka is None or stream.name not in topics:
            continue
        now, again = topics[stream.name], _replaced(stream.name, recorded, sources, topics)
        lost = [
            *_lost_messages(committed[stream.name], now, again),
            *_of_another_topic(begun[stream.name], now, again),
        ]
        if lost and kafka.on_data_loss == "fail":
            raise failure(app, name, batch, stream.name, "\n".join(lost))
        for line in lost:
            _LOG.warning("%s.%s: messages of stream %s are lost: %s", app, name, stream.name, line)


def record(sources: Sequence[Source | None], home: TableHome, topics: Mapping[str, TopicOffsets]) -> None:
    """Records the topics to which the checkpoint's positions belong, including those of the next batch."""
    before, read = _read_recorded(home), [one.name for one in _streams(sources) if one.name in topics]
    known = before if home.planned_batch() is not None else {}
    named = {name: ids for name, ids in known.items() if name != _EVERY}
    now = named | {name: {**_ids(name, known, sources), **topics[name].ids} for name in read}
    if read and now != before:
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


def _read_recorded(home: TableHome) -> _Ids:
    try:
        found = dict(json.loads(_file(home).read_bytes()))
    except FileNotFoundError:
        return {}
    # An earlier version recorded one id per name of a topic, whatever the stream.
    flat = any(isinstance(ids, str) for ids in found.values())
    return {_EVERY: found} if flat else found


def _ids(stream: str, recorded: _Ids, sources: Sequence[Source | None]) -> dict[str, str]:
    """The recorded ids of a stream's topics; of one without a record, those of streams that are gone.

    It may have been renamed, which changes nothing in the state.
    """
    if stream in recorded:
        return recorded[stream]
    present = {one.name for one in _streams(sources)}
    return {topic: id_ for name, ids in recorded.items() if name not in present for topic, id_ in ids.items()}


def _replaced(
    stream: str, recorded: _Ids, sources: Sequence[Source | None], topics: Mapping[str, TopicOffsets]
) -> set[str]:
    """The topics of a stream that have another id than recorded."""
    before = _ids(stream, recorded, sources)
    found = {topic for topic, id_ in topics[stream].ids.items() if before.get(topic, id_) != id_}
    if stream in recorded:
        return found
    # A record of no certain stream may have the id of a topic of that name in the cluster of another one.
    read = [topics[one.name].ids for one in _streams(sources) if one.name in topics]
    return {topic for topic in found if all(before[topic] != ids.get(topic) for ids in read)}


def _streams(sources: Sequence[Source | None]) -> list[Source]:
    return list({source.name: source for source in sources if source is not None}.values())


def _positions(
    home: TableHome, batch: int | None, sources: Sequence[Source | None]
) -> dict[str, list[_Position]]:
    """The next message of each partition of a topic after a batch, by stream."""
    offsets = [] if batch is None else home.spark.offsets(batch)
    found: dict[str, list[_Position]] = {stream.name: [] for stream in _streams(sources)}
    # If the definition has other sources than the batch, topics are told apart by their names alone.
    each: list[list[Source]] = [[] if source is None else [source] for source in sources]
    if len(offsets) != len(sources):
        each = [_streams(sources) for _ in offsets]
    for offset, streams in zip(offsets, each, strict=True):
        if isinstance(offset, MessagesOffset):
            positions = [
                (topic, number, next_one)
                for topic, partitions in offset.next.items()
                for number, next_one in partitions.items()
            ]
            for stream in streams:
                # A plan may read a source twice.
                found[stream.name] = list(dict.fromkeys([*found[stream.name], *positions]))
    return found


def _lost_messages(read: Iterable[_Position], topics: TopicOffsets, again: Collection[str]) -> Iterator[str]:
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
    begun: Iterable[_Position], topics: TopicOffsets, again: Collection[str]
) -> Iterator[str]:
    """Positions, including those of an unfinished batch, in topics that have been replaced by now."""
    for topic, number, next_one in begun:
        if topic in again and _offset(topics.last, topic, number) is not None and next_one > 0:
            read = f"it was read up to offset {next_one} of a topic with another id"
            yield f"{topic}-{number}: {read}: {_AGAIN}, or the servers are those of another cluster"


def _offset(offsets: Messages, topic: str, number: str) -> int | None:
    return offsets.get(topic, {}).get(number)
