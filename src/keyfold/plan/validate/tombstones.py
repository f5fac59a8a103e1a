"""Checks of `tombstones="delete"`: a topic as a changelog, which a table of its latest rows reads."""

from __future__ import annotations

from typing import NoReturn

from keyfold.errors import BadOption
from keyfold.plan.nodes import Source, TableSpec, TopSpec
from keyfold.plan.tree import walk

_TABLE = '.by("kafka_key").latest().table("name")'


def deletes(stream: Source) -> bool:
    """Whether messages without a value delete the row of their key."""
    return stream.connector.kafka is not None and stream.connector.kafka.tombstones == "delete"


def check_stream(stream: Source, where: object) -> None:
    """Refuses options that a changelog of messages can't have."""
    if not deletes(stream):
        return
    assert stream.connector.kafka is not None
    if "key" not in stream.connector.kafka.metadata:
        _refuse("needs the message's key as a column", where, "metadata=['key']")
    if stream.time is not None:
        why = "can't have an event time: a message without a value has none, and the topic's order counts"
        _refuse(why, where, "leave time= out")
    if stream.shared or stream.history_ms is not None:
        why = "can't have a log of its own: a log of rows does not record deletions"
        _refuse(
            why, where, "leave shared= and history= out, and give the table of its latest rows a history="
        )


def check_table(table: TableSpec, where: object) -> None:
    """Refuses tables that could not identify the row deleted by a message without a value."""
    for node in walk(table.input):
        if not isinstance(node, Source) or not deletes(node):
            continue
        by_key = [expression for _, expression in table.keys] == ["kafka_key"]
        latest = table.body == TopSpec() and table.ttl_ms is None
        if table.input is not node or not by_key or not latest:
            raise BadOption(
                f"stream {node.name} has tombstones='delete', and a message without a value has nothing but "
                "its key: only a table of the latest row of each key knows which row it deletes",
                where=where,
                given=f"a table that is not {node.name}{_TABLE}, with all columns and without ttl",
                hint=f"rows = {node.name}{_TABLE}, then rows.changes() for where, select and other "
                "tables, from which deleted rows are retracted",
            )


def _refuse(why: str, where: object, hint: str) -> NoReturn:
    raise BadOption(f"a stream with tombstones='delete' {why}", where=where, hint=hint)
