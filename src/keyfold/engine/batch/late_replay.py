"""Late rows of a table: read back with the windows they missed, and sent to be folded after all.

A replay writes one file per late batch into the directory that the table reads beside its streams. The file
appears as a whole and is never rewritten, so a replay happens once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from keyfold.engine.log import side_outputs
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.side_outputs import SideOutput
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import QueryError, RunError, choice, did_you_mean
from keyfold.views.types import epoch

_TRIES: Final = 3


def table_of(app: str, name: str, tables: Mapping[str, Collection[str]], streams: Collection[str]) -> str:
    """The table of that name; `tables` are those of the app, each with the streams it reads."""
    for table in tables:
        if table.lower() == name.lower():
            return table
    if name.lower() in (stream.lower() for stream in streams):
        readers = [t for t, read in tables.items() if name.lower() in (stream.lower() for stream in read)]
        hint = f"a table that reads it: {', '.join(readers)}" if readers else "no table reads this stream"
        raise QueryError(
            f"{name} is a stream, and late rows are kept per table", where=app, given=name, hint=hint
        )
    hint_ = did_you_mean(name, tables, choice(tables))
    raise QueryError(f"no table {name} in app {app}", reason="not_found", given=name, hint=hint_)


def read(home: TableHome, batches: Collection[int] | None = None) -> Iterator[dict[str, Any]]:
    """The late rows of a table, of all batches or some, oldest batch first."""
    log, found = TableLog(home.log_files), _manifests(home, batches)
    return side_outputs.late(log, {manifest.batch for manifest in found})


def _manifests(home: TableHome, batches: Collection[int] | None) -> list[Manifest]:
    """The batches with late rows, or the requested ones of these."""
    found = {m.batch: m for m in TableLog(home.log_files).after(-1) if m.of_kind("late")}
    unknown = sorted(set(batches or ()) - set(found))
    if unknown:
        hint = f"batches with late rows: {_few(list(found))}" if found else "no batch has late rows"
        what = f"batch {unknown[0]} has no late rows"
        raise QueryError(what, reason="not_found", where=home.path.name, given=unknown[0], hint=hint)
    return [manifest for batch, manifest in found.items() if batches is None or batch in batches]


def _late(home: TableHome, manifest: Manifest) -> Iterator[SideOutput]:
    return side_outputs.of_batch(TableLog(home.log_files), manifest, "late")


def _few(batches: list[int]) -> str:
    shown = ", ".join(str(batch) for batch in batches[-10:])
    return shown if len(batches) <= 10 else f"..., {shown}"


@dataclass(frozen=True)
class Batch:
    """The known facts about the late rows of one batch; `sent` is None before a replay."""

    batch: int
    rows: int
    late_by: float | None
    sent: int | None
    windowless: int = 0
    """Of the rows, those that were late in a step before the windows."""

    @property
    def replayed(self) -> str:
        """yes, no, or partly; partly-expired if the windows of some rows were no longer retained by then."""
        if self.sent is None:
            return "no"
        if self.sent < self.rows - self.windowless:
            return "partly-expired"
        return "partly" if self.windowless else "yes"


def batches_of(home: TableHome) -> Iterator[Batch]:
    """The batches that have late rows, oldest first."""
    for manifest in _manifests(home, None):
        rows = [(side_outputs.late_by(side), _windowless(side)) for side in _late(home, manifest)]
        longest = max((seconds for seconds, _ in rows if seconds is not None), default=None)
        windowless = sum(without for _, without in rows)
        sent = _lines(replay_file(home, manifest.batch))
        yield Batch(manifest.batch, len(rows), longest, sent, windowless)


@dataclass(frozen=True)
class Replayed:
    """The result of replaying late rows."""

    sent: int = 0
    sent_before: int = 0
    no_longer_kept: int = 0
    not_replayable: int = 0
    """Late in a step before the windows, such as `distinct`, which no longer knows about their time."""
    under_way: int = 0

    def __add__(self, other: Replayed) -> Replayed:
        return Replayed(
            self.sent + other.sent,
            self.sent_before + other.sent_before,
            self.no_longer_kept + other.no_longer_kept,
            self.not_replayable + other.not_replayable,
            self.under_way + other.under_way,
        )


def replay(
    home: TableHome,
    keep_ms: int,
    watermark: datetime | None,
    batches: Collection[int] | None = None,
    upto: int | None = None,
) -> Replayed:
    """Sends the late rows of all or some batches that have not been sent and whose windows are retained.

    A window is retained for `keep_ms` after its end, by the present watermark; without a watermark all are.
    Batches after `upto` are still running: a row that they fold from a replay may be late in them again, by a
    watermark that is not known here yet, and must not be sent twice.
    """
    expired_before = None if watermark is None else epoch.to_micros(watermark) - keep_ms * 1000
    done = Replayed()
    for manifest in _manifests(home, batches):
        if upto is None or manifest.batch <= upto:
            done += _replayed(home, manifest, expired_before)
        else:
            done += Replayed(under_way=manifest.counts["late"])
    return done


def replay_file(home: TableHome, batch: int) -> StoredFile:
    """The file that sends a batch's late rows."""
    return StoredFile(home.side, f"replay-{batch:012d}.json")


def _replayed(home: TableHome, manifest: Manifest, expired_before: int | None) -> Replayed:
    for _ in range(_TRIES):
        # An app that is starting removes unfinished files.
        with suppress(FileNotFoundError):
            return _sent_once(home, manifest, expired_before)
    what = (
        f"the late rows of batch {manifest.batch} were removed by a start of the app while they were replayed"
    )
    raise RunError(what, table=home.path.name, hint="run it again")


def _sent_once(home: TableHome, manifest: Manifest, expired_before: int | None) -> Replayed:
    target = replay_file(home, manifest.batch)
    if not target.exists():
        content, done = _encoded(_late(home, manifest), expired_before)
        # Of two concurrent replays the second finds the name taken.
        if not done.sent or home.side.put_new(target.path, content):
            return done
    before, rows = _lines(target) or 0, list(map(_windowless, _late(home, manifest)))
    expired = max(0, len(rows) - sum(rows) - before)
    return Replayed(sent_before=before, no_longer_kept=expired, not_replayable=sum(rows))


def _encoded(rows: Iterator[SideOutput], expired_before: int | None) -> tuple[bytes, Replayed]:
    """The rows whose windows are retained, as lines, and the numbers of replayed rows and of others."""
    lines, expired, windowless = [], 0, 0
    for side in rows:
        watermark = side["watermark"]
        if _windowless(side):
            windowless += 1
        # Without a watermark nothing that the row missed is retained.
        elif watermark is None or (expired_before is not None and side["last_end"] <= expired_before):
            expired += 1
        else:
            line = {"raw": side["raw"], "time_us": side["event_time"], "watermark_us": watermark}
            lines.append(json.dumps(line) + "\n")
    done = Replayed(sent=len(lines), no_longer_kept=expired, not_replayable=windowless)
    return "".join(lines).encode(), done


def _windowless(side: SideOutput) -> bool:
    """Whether a row was late in a step before the windows, or the table has no closing windows."""
    return side["missed"] == 0


def _lines(file: StoredFile) -> int | None:
    """The number of lines in a file; None if it does not exist."""
    try:
        return file.read_bytes().count(b"\n")
    except FileNotFoundError:
        return None
