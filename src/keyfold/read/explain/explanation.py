"""Why a row has its value: from a change of a key to its batch, and to what the batch read of each source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from keyfold.engine.log import readers
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.source_offsets import MessagesOffset, SourceOffset, parse_offset
from keyfold.errors import HomeUnusable, QueryError
from keyfold.read import history
from keyfold.read.explain import lineage, source_files
from keyfold.read.explain.batches_read import BatchesRead, batches_read
from keyfold.read.explain.source_rows import SourceRow, rows_of_key
from keyfold.read.history import Change

MOST_ROWS: Final = 200
_NAMED: Final = 5


@dataclass(frozen=True, kw_only=True)
class BatchInput:
    """What a batch read of one source of its table."""

    kind: Literal["stream", "table", "topic", "files"]
    name: str
    first: int | None = None
    last: int | None = None
    """Of a stream with a log, or a table: the batches of its log that were read."""
    offsets: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    """Of a topic: by partition, the first offset that was read, and the next one that was not."""
    files: Sequence[str] = ()
    """Of files: those that were read."""
    steps: Sequence[str] = ()
    """What the rows go through before they are folded."""
    rows: Sequence[SourceRow] | None = None
    """The rows of the key, before these steps; null if they can't be read."""
    more: bool = False
    """Whether there are more than these."""
    missing: str | None = None
    """Why there are no rows, and what would record them."""


@dataclass(frozen=True)
class Explanation:
    """A change of a key with the row before it, its batch, and what that read."""

    change: Change
    before: Change | None
    """The change before it, of a row that was there; null if it is the first that the log has."""
    watermark: datetime | None
    counts: Mapping[str, int]
    """How many rows of each kind the batch had, of all keys."""
    inputs: Sequence[BatchInput]
    changes: int
    """How many changes the key has in the log."""


def explain(home: AppHome, table: str, key: Sequence[str], batch: int | None = None) -> Explanation:
    """Explains the change of a key in a batch, or its newest one."""
    log = TableLog(home.table(table).log_files)
    change, before, changes = _chosen(log, key, batch)
    manifest = log.find(change.batch)
    if manifest is None:
        raise QueryError(f"batch {change.batch} has left the log meanwhile", reason="not_found", given=batch)
    inputs = list(_inputs(home, table, log, manifest, key))
    return Explanation(change, before, manifest.watermark, dict(manifest.counts), inputs, changes)


def _chosen(log: TableLog, key: Sequence[str], batch: int | None) -> tuple[Change, Change | None, int]:
    """The last change of a batch, or of all; the change before it; and how many the key has."""
    chosen: Change | None = None
    before: Change | None = None
    newest: deque[Change] = deque(maxlen=_NAMED)
    changes = 0
    # One by one: a key may have changed a million times.
    for change in history.history(log, key):
        changes += 1
        if batch is None or change.batch == batch:
            chosen, before = change, newest[-1] if newest else None
        newest.append(change)
    if chosen is not None:
        return chosen, before, changes
    given = "/".join(key) if batch is None else f"batch={batch}"
    if newest:
        some = ", ".join(str(change.batch) for change in newest)
        what = f"the key has no change in batch {batch}"
        raise QueryError(what, reason="not_found", given=given, hint=f"newest: {some}")
    since = history.since(log)
    reaches = "" if since.whole else "; the log has changes from a later batch on"
    hint = "the key as `keyfold rows` shows it" if since.whole else "history= of the table keeps changes"
    what = f"the log has no change of this key{reaches}"
    raise QueryError(what, reason="not_found", given=given, hint=hint)


def _inputs(
    home: AppHome, table: str, log: TableLog, manifest: Manifest, key: Sequence[str]
) -> Iterator[BatchInput]:
    table_home = home.table(table)
    before = _offsets_before(log, manifest, table_home.spark.offset_documents)
    now = [parse_offset(one) for one in manifest.offsets]
    declared = home.read_plan().declared_tables.get(table) or {}
    sources = lineage.reads(declared)
    names = {kind: {one.name for one in sources if one.kind == kind} for kind in ("table", "stream")}
    uses = readers.recorded(table, table_home, names["table"], names["stream"])
    steps = []
    for read in sources:
        use = lineage.use_of(read, sources, uses)
        known = None if use is None else batches_read(use, table_home, now, before)
        if known is None:
            steps.append(read.words)
        else:
            yield _of_log(home, known, read, declared, key)
    of_others = steps[0] if len(steps) == 1 else ()
    yield from _topics(now, before, of_others)
    yield from _files(table_home, now, before, of_others)


def _offsets_before(log: TableLog, manifest: Manifest, of_batch: Any) -> list[SourceOffset] | None:
    """The offsets of the batch before; None if they are no longer recorded, none before the first batch."""
    if manifest.batch == 0:
        return []
    earlier = log.find(manifest.batch - 1)
    try:
        documents = earlier.offsets if earlier is not None else of_batch(manifest.batch - 1)
    except (OSError, ValueError):
        return None
    return [parse_offset(one) for one in documents]


def _of_log(
    home: AppHome, known: BatchesRead, read: lineage.Read, declared: Mapping[str, Any], key: Sequence[str]
) -> BatchInput:
    kind: Literal["stream", "table"] = "stream" if read.kind == "stream" else "table"
    of = home.stream_home(read.name) if kind == "stream" else home.table(read.name)
    rows, more, missing = None, False, known.missing
    if missing is None:
        try:
            time = _time(home, read) if lineage.is_windowed(declared, key) else None
            rows, more = rows_of_key(
                TableLog(of.log_files), known, read, lineage.key_columns(declared), key, time, MOST_ROWS
            )
        except (QueryError, HomeUnusable) as error:
            missing = error.what if error.hint is None else f"{error.what}: {error.hint}"
    return BatchInput(
        kind=kind,
        name=read.name,
        first=known.first,
        last=known.last,
        steps=read.words,
        rows=rows,
        more=more,
        missing=missing,
    )


def _time(home: AppHome, read: lineage.Read) -> str | None:
    stream = home.read_plan().declared_streams.get(read.name) or {}
    return None if stream.get("time") is None else str(stream["time"])


_NO_LOG: Final = (
    "the table reads its source itself: history= or shared=True of the stream records its rows in a log"
)


def _topics(
    now: Sequence[SourceOffset], before: Sequence[SourceOffset] | None, steps: Sequence[str]
) -> Iterator[BatchInput]:
    for number, offset in enumerate(now):
        if not isinstance(offset, MessagesOffset):
            continue
        earlier = before[number] if before and number < len(before) else None
        known = earlier.next if isinstance(earlier, MessagesOffset) else {}
        for topic, partitions in offset.next.items():
            read: dict[str, list[int | None]] = {
                partition: [known.get(topic, {}).get(partition), end] for partition, end in partitions.items()
            }
            some = {name: span for name, span in read.items() if span[0] != span[1]}
            yield BatchInput(kind="topic", name=topic, offsets=some, steps=steps, missing=_NO_LOG)


def _files(
    table: Any, now: Sequence[SourceOffset], before: Sequence[SourceOffset] | None, steps: Sequence[str]
) -> Iterator[BatchInput]:
    for stream, files in source_files.read(table.spark, now, before):
        yield BatchInput(kind="files", name=stream, files=files, steps=steps, missing=_NO_LOG)
