"""What a reader waits for: messages of Kafka by their position, and batches of tables."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.read import read_upto
from keyfold.read.changes import LogPosition
from keyfold.read.read_upto import ReadUpto
from keyfold.views.contract import Position, ViewStore

_POLL: Final = 0.005
_SLOWEST_POLL: Final = 0.1
_TOPIC: Final = r"[A-Za-z0-9._-]{1,249}"
_MESSAGE: Final = re.compile(rf"({_TOPIC})/([0-9]{{1,9}})@([0-9]{{1,18}})")
_BATCH: Final = re.compile(r"([^@/,]+)\.([^@/,.]+)@([0-9]{1,18}(?:e[0-9]{1,18})?)")


@dataclass(frozen=True)
class MessagePosition:
    """The position of a message, as Kafka tells its producer."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


@dataclass(frozen=True)
class TablePosition:
    """The position behind a batch of a table, as answers and change feeds have it."""

    app: str
    table: str
    position: LogPosition

    @property
    def batch(self) -> int:
        """The batch that it is behind; -1 before the first one."""
        return self.position.next - 1

    def __str__(self) -> str:
        return f"{self.app}.{self.table}@{self.position}"


Wanted = Sequence[MessagePosition | TablePosition]


def parse(text: str) -> list[MessagePosition | TablePosition]:
    """Positions, with commas between them.

    >>> parse("orders/3@1234,shop.totals@9")  # doctest: +NORMALIZE_WHITESPACE
    [MessagePosition(topic='orders', partition=3, offset=1234),
     TablePosition(app='shop', table='totals', position=LogPosition(next=9, epoch=None))]
    """
    return [_parsed(one.strip()) for one in text.split(",")]


def _parsed(text: str) -> MessagePosition | TablePosition:
    if found := _MESSAGE.fullmatch(text):
        return MessagePosition(found[1], int(found[2]), int(found[3]))
    if found := _BATCH.fullmatch(text):
        return TablePosition(found[1], found[2], LogPosition.parse(found[3]))
    hint = "orders/3@1234, which is TOPIC/PARTITION@OFFSET; or the position of an answer or of a change feed"
    raise QueryError("not a position", given=f"after={text}", hint=hint)


class BehindPosition(QueryError):
    """The view does not show a position yet; `present` has how far it is instead, null for nothing at all."""

    def __init__(self, what: str, *, present: Mapping[str, str | None], **parts: Any) -> None:
        super().__init__(what, reason="behind_bound", **parts)
        self.present = present


def behind(home: AppHome, table: str, at: Position | None, wanted: Wanted) -> BehindPosition | None:
    """Why the view of a table, which is at a position, does not show what is wanted; None if it does.

    What it can't ever show, such as a topic that it does not read, is another `QueryError`.
    """
    found = read_upto.of_batch(home, table, -1 if at is None else at.batch)
    present: dict[str, str | None] = {}
    for one in wanted:
        if isinstance(one, MessagePosition):
            _require_topic(home, table, one, found)
            upto = found.next_message(one.topic, one.partition)
            if upto <= one.offset:
                name = f"{one.topic}/{one.partition}"
                present[name] = f"{name}@{upto - 1}" if upto else None
        else:
            upto = _batch_of(home, table, one, found)
            if upto < one.batch:
                present[f"{one.app}.{one.table}"] = f"{one.app}.{one.table}@{upto + 1}" if upto >= 0 else None
    return _error(home, table, at, wanted, present) if present else None


def _require_topic(home: AppHome, table: str, wanted: MessagePosition, found: ReadUpto) -> None:
    stored = home.read_plan()
    declared = [(stored.declared_streams.get(name) or {}).get("source") or {} for name in found.streams]
    topics = {*found.topics, *(topic for source in declared for topic in source.get("topics") or ())}
    # A pattern may match topics that have no message yet.
    if wanted.topic in topics or any(source.get("pattern") for source in declared):
        return
    others = choice(sorted(topics)) if topics else "at_least=BATCH, as the table reads no topic of Kafka"
    raise QueryError(
        f"the table does not read topic {wanted.topic}",
        where=f"{home.path.name}.{table}",
        given=f"after={wanted}",
        hint=did_you_mean(wanted.topic, topics, others),
    )


def _batch_of(home: AppHome, table: str, wanted: TablePosition, found: ReadUpto) -> int:
    where, given = f"{home.path.name}.{table}", f"after={wanted}"
    names = {name.lower(): name for name in found.logs}
    name = names.get(wanted.table.lower())
    if name is None or wanted.app != home.path.name:
        hint = f"a position of {choice(f'{home.path.name}.{one}' for one in found.logs)}"
        what = "the position is of a table that this one does not read"
        raise QueryError(what, where=where, given=given, hint=hint)
    stored = home.read_plan()
    of = home.table(name) if name in stored.tables else home.stream_home(name)
    manifest = TableLog(of.log_files).find(wanted.batch) if wanted.position.epoch is not None else None
    if manifest is not None and manifest.epoch != wanted.position.epoch:
        what = "the table has other batches since: it was reset or restored"
        raise QueryError(what, reason="gone", where=where, given=given, hint="read without after")
    return found.logs[name]


def _error(
    home: AppHome, table: str, at: Position | None, wanted: Wanted, present: Mapping[str, str | None]
) -> BehindPosition:
    first, upto = next(iter(present.items()))
    if at is None:
        what = "the view has no batch yet"
    elif upto is None:
        what = f"the view is at batch {at.batch}, which has nothing of {first}"
    else:
        what = f"the view is at batch {at.batch}, which is at {upto}"
    return BehindPosition(
        what,
        present=present,
        where=f"{home.path.name}.{table}",
        given=f"after={','.join(map(str, wanted))}",
        hint="wait longer; `keyfold status` says whether the app runs and how far it lags",
    )


def wait(home: AppHome, views: ViewStore, table: str, wanted: Wanted, seconds: float) -> Position | None:
    """The position of a view once it shows what is wanted; `BehindPosition` after so many seconds."""
    deadline, pause = time.monotonic() + seconds, _POLL
    while True:
        at = views.position(table)
        error = behind(home, table, at, wanted)
        if error is None:
            return at
        left = deadline - time.monotonic()
        if left <= 0:
            raise error
        # Polling also notices batches of other processes.
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _SLOWEST_POLL)
