"""The late rows of a table by batch, and what was replayed of them.

A replay writes one file for each batch, `side/replay-<batch>.json`, with a line for each row that is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import QueryError
from keyfold.read import side_outputs
from keyfold.read.side_outputs import SideOutput
from keyfold.read.side_rows import LateRow


@dataclass(frozen=True)
class LateBatch:
    """What is known of the late rows of one batch; `sent` is None before a replay."""

    batch: int
    rows: int
    late_by: float | None
    sent: int | None
    windowless: int = 0
    """Of the rows, those that were late in a step before the windows."""

    @property
    def replayed(self) -> str:
        """yes, no, or partly; partly-expired if some rows' windows were no longer kept by then."""
        if self.sent is None:
            return "no"
        if self.sent < self.rows - self.windowless:
            return "partly-expired"
        return "partly" if self.windowless else "yes"

    def document(self) -> dict[str, Any]:
        """The batch as data; before a replay, no row was sent."""
        return {
            "batch": self.batch,
            "rows": self.rows,
            "late_by": self.late_by,
            "replayed": self.replayed,
            "sent": self.sent or 0,
        }


def rows(home: TableHome, batches: Collection[int] | None = None) -> Iterator[LateRow]:
    """The late rows of a table, of all batches or some, oldest batch first."""
    found = manifests(home, batches)
    return side_outputs.late(TableLog(home.log_files), {manifest.batch for manifest in found})


def batches_of(home: TableHome) -> Iterator[LateBatch]:
    """The batches that have late rows, oldest first."""
    for manifest in manifests(home):
        found = [(side_outputs.late_by(side), is_windowless(side)) for side in of_batch(home, manifest)]
        longest = max((seconds for seconds, _ in found if seconds is not None), default=None)
        windowless = sum(without for _, without in found)
        sent = lines(replay_file(home, manifest.batch))
        yield LateBatch(manifest.batch, len(found), longest, sent, windowless)


def manifests(home: TableHome, batches: Collection[int] | None = None) -> list[Manifest]:
    """The batches that have late rows, or those of them that are asked for."""
    found = {m.batch: m for m in TableLog(home.log_files).after(-1) if m.of_kind("late")}
    unknown = sorted(set(batches or ()) - set(found))
    if unknown:
        hint = f"batches with late rows: {_few(list(found))}" if found else "no batch has late rows"
        what = f"batch {unknown[0]} has no late rows"
        raise QueryError(what, reason="not_found", where=home.path.name, given=unknown[0], hint=hint)
    return [manifest for batch, manifest in found.items() if batches is None or batch in batches]


def of_batch(home: TableHome, manifest: Manifest) -> Iterator[SideOutput]:
    """The late rows of one batch, as the kernel wrote them."""
    return side_outputs.of_batch(TableLog(home.log_files), manifest, "late")


def is_windowless(side: SideOutput) -> bool:
    """Whether a row was late before it came to windows, or there are none that close."""
    return side["missed"] == 0


def replay_file(home: TableHome, batch: int) -> StoredFile:
    """The file that sends a batch's late rows."""
    return StoredFile(home.side, f"replay-{batch:012d}.json")


def lines(file: StoredFile) -> int | None:
    """How many lines a file has; None if it isn't there."""
    try:
        return file.read_bytes().count(b"\n")
    except FileNotFoundError:
        return None


def _few(batches: list[int]) -> str:
    shown = ", ".join(str(batch) for batch in batches[-10:])
    return shown if len(batches) <= 10 else f"..., {shown}"
