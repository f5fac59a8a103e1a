"""Replays late rows of a table: sends them to be folded after all.

A replay writes one file per late batch into the directory that the table reads beside its streams. The file
appears as a whole and is never rewritten, so a replay happens once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keyfold.engine.log.manifest import Manifest
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import RunError
from keyfold.read import late
from keyfold.read.side_outputs import SideOutput
from keyfold.views.types import epoch

_TRIES: Final = 3


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
    for manifest in late.manifests(home, batches):
        if upto is None or manifest.batch <= upto:
            done += _replay(home, manifest, expired_before)
        else:
            done += Replayed(under_way=manifest.counts["late"])
    return done


def _replay(home: TableHome, manifest: Manifest, expired_before: int | None) -> Replayed:
    for _ in range(_TRIES):
        # An app that is starting removes unfinished files.
        with suppress(FileNotFoundError):
            return _send_once(home, manifest, expired_before)
    what = (
        f"the late rows of batch {manifest.batch} were removed by a start of the app while they were replayed"
    )
    raise RunError(what, table=home.path.name, hint="run it again")


def _send_once(home: TableHome, manifest: Manifest, expired_before: int | None) -> Replayed:
    target = late.replay_file(home, manifest.batch)
    if not target.exists():
        content, done = _encode(late.of_batch(home, manifest), expired_before)
        # Of two concurrent replays the second finds the name taken.
        if not done.sent or home.side.put_new(target.path, content):
            return done
    before, rows = late.lines(target) or 0, list(map(late.is_windowless, late.of_batch(home, manifest)))
    expired = max(0, len(rows) - sum(rows) - before)
    return Replayed(sent_before=before, no_longer_kept=expired, not_replayable=sum(rows))


def _encode(rows: Iterator[SideOutput], expired_before: int | None) -> tuple[bytes, Replayed]:
    """The rows whose windows are retained, as lines, and the numbers of replayed rows and of others."""
    lines, expired, windowless = [], 0, 0
    for side in rows:
        watermark = side["watermark"]
        if late.is_windowless(side):
            windowless += 1
        # Without a watermark nothing that the row missed is retained.
        elif watermark is None or (expired_before is not None and side["last_end"] <= expired_before):
            expired += 1
        else:
            line = {"raw": side["raw"], "time_us": side["event_time"], "watermark_us": watermark}
            lines.append(json.dumps(line) + "\n")
    done = Replayed(sent=len(lines), no_longer_kept=expired, not_replayable=windowless)
    return "".join(lines).encode(), done
