"""The rows of a log that were not folded: rejected, late and duplicate ones, as users read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

from keyfold.engine.log.manifest import Kind, Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.read.side_rows import PLACE, DuplicateRow, LateRow, Moment, RejectedRow, Window
from keyfold.views.types import epoch

FILE: Final = "file"
"""The kind of side output for a rejected file."""
OWN_VALUES: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[+-]?\d[\w.:+-]*")
"""The parts of a reason that are specific to one row: quoted values, numbers and times."""


class MissedWindow(TypedDict):
    """A window that a late row missed: its bounds in microseconds since the epoch."""

    start: int
    end: int


class SideOutput(TypedDict):
    """One row of the kernel's side output, as `SideOutput.schema` in the kernel defines it.

    Fields that a kind does not have are None; times are microseconds since the epoch.
    """

    kind: str
    reason: str | None
    raw: str | None
    stream: str | None
    cause: str | None
    file: str | None
    line: int | None
    byte: int | None
    event_time: int | None
    watermark: int | None
    missed: int
    last_end: int
    windows: list[MissedWindow]
    step: str | None
    count: int | None
    topic: str | None
    partition: int | None
    offset: int | None


_OF_ROW: Final = ("reason", "raw", "cause", *PLACE, "stream")
_OF_FILE: Final = ("reason", "raw", "stream", "file")


def read_rejected(log: TableLog) -> list[RejectedRow]:
    """Every rejected row of a log, oldest batch first."""
    return [_rejected_row(manifest, side) for manifest, side in _rows(log, "rejected")]


def duplicates(log: TableLog) -> list[DuplicateRow]:
    """Every recorded duplicate of a log, oldest batch first."""
    found = _rows(log, "duplicate")
    return [DuplicateRow(m.batch, m.at, side.get("step"), side.get("raw")) for m, side in found]


def late(log: TableLog, batches: Collection[int] | None = None) -> Iterator[LateRow]:
    """The late rows of all or some batches, oldest batch first."""
    for manifest, side in _rows(log, "late", batches):
        yield _late(manifest, side)


def kind_of(reason: str | None) -> str:
    """A reason without the row's own values, numbers and times, as the kernel counts them.

    >>> kind_of('does not parse: column amount: "much" is not a valid double')
    'does not parse: column amount: ... is not a valid double'
    """
    return OWN_VALUES.sub("...", reason or "")


def by_reason(rows: Iterable[RejectedRow]) -> Counter[str]:
    """The number of rejected rows by kind of reason; a file counts with its rows."""
    found: Counter[str] = Counter()
    for row in rows:
        found[kind_of(row.reason)] += row.count
    return found


def not_kept(log: TableLog, rows: Iterable[RejectedRow]) -> Counter[str]:
    """The number of rows counted by kind of reason in addition to these, which the log has."""
    counted: Counter[str] = Counter()
    for manifest in log.after(-1):
        for reason in manifest.reasons:
            counted[kind_of(reason.example)] += reason.rows
    return counted - by_reason(rows)


def of_batch(log: TableLog, manifest: Manifest, kind: Kind) -> Iterator[SideOutput]:
    """The side outputs of a kind in one batch, as the kernel wrote them."""
    for found in log.rows(manifest, kind):
        yield from found.to_pylist()


def _rows(
    log: TableLog, kind: Kind, batches: Collection[int] | None = None
) -> Iterator[tuple[Manifest, SideOutput]]:
    for manifest in log.after(-1):
        if batches is None or manifest.batch in batches:
            for side in of_batch(log, manifest, kind):
                yield manifest, side


def _rejected_row(manifest: Manifest, side: SideOutput) -> RejectedRow:
    if side["kind"] == FILE:
        fields = _fields(side, _OF_FILE)
        return RejectedRow(manifest.batch, manifest.at, **fields, whole_file=True, rows=side["count"])
    return RejectedRow(manifest.batch, manifest.at, **_fields(side, _OF_ROW))


def _late(manifest: Manifest, side: SideOutput) -> LateRow:
    return LateRow(
        manifest.batch,
        manifest.at,
        **_fields(side, ("reason", "raw", "stream")),
        time=_moment(side["event_time"]),
        watermark=_moment(side["watermark"]),
        late_by=late_by(side),
        missed=side["missed"],
        windows=tuple(Window(_of_micros(w["start"]), _of_micros(w["end"])) for w in side["windows"]),
    )


def late_by(side: SideOutput) -> float | None:
    """The seconds by which a late row missed its newest window; None before the first watermark."""
    return None if side["watermark"] is None else (side["watermark"] - side["last_end"]) / 1_000_000


def _fields(side: SideOutput, names: Sequence[str]) -> dict[str, Any]:
    # Logs of earlier versions lack some columns.
    values: Mapping[str, Any] = side
    return {name: values.get(name) for name in names}


def _moment(micros: int | None) -> Moment | None:
    return None if micros is None else _of_micros(micros)


def _of_micros(micros: int) -> Moment:
    return epoch.from_micros(micros, zoned=True)


def of_stream(stream: str, per_table: Iterable[Iterable[RejectedRow]]) -> list[RejectedRow]:
    """A stream's rejected rows: one that several of its tables reject is listed once.

    Rows of other streams in a union are left out; rows whose stream is unknown are included.
    """
    seen: Counter[str | None] = Counter()
    rows: list[RejectedRow] = []
    for table in per_table:
        here: Counter[str | None] = Counter()
        for row in table:
            if (row.stream or stream).lower() != stream.lower():
                continue
            here[row.raw] += 1
            if here[row.raw] > seen[row.raw]:
                rows.append(row)
        seen |= here
    return rows
