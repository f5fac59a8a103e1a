"""The rows of a log that were not folded: rejected, late and duplicate ones, as users read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

from keyfold.engine.log.manifest import Kind, Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.views.types import epoch

FILE: Final = "file"
"""The kind of side output for a rejected file."""
OWN_VALUES: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[+-]?\d[\w.:+-]*")
"""The parts of a reason that are specific to one row: quoted values, numbers and times."""


class Window(TypedDict):
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
    windows: list[Window]
    step: str | None
    count: int | None
    topic: str | None
    partition: int | None
    offset: int | None


_PLACE: Final = ("file", "line", "byte", "topic", "partition", "offset")


def rejected(log: TableLog) -> list[dict[str, Any]]:
    """Every rejected row of a table, oldest batch first: batch, at, reason, raw."""
    return [{**_stamp(manifest), **_rejected(side)} for manifest, side in _rows(log, "rejected")]


def duplicates(log: TableLog) -> list[dict[str, Any]]:
    """What `distinct(record_duplicates=True)` recorded, oldest batch first: batch, at, step, raw."""
    found = _rows(log, "duplicate")
    return [{**_stamp(manifest), **_present(side, "step", "raw")} for manifest, side in found]


def late(log: TableLog, batches: Collection[int] | None = None) -> Iterator[dict[str, Any]]:
    """The late rows of all or some batches: time, watermark, late_by, missed, windows, raw."""
    for manifest, side in _rows(log, "late", batches):
        yield {**_stamp(manifest), **_late(side)}


def kind_of(reason: str) -> str:
    """A reason without the row's own values, numbers and times, as the kernel counts them.

    >>> kind_of('does not parse: column amount: "much" is not a valid double')
    'does not parse: column amount: ... is not a valid double'
    """
    return OWN_VALUES.sub("...", reason)


def by_reason(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The number of rejected rows by kind of reason; a file counts with its rows."""
    found: Counter[str] = Counter()
    for row in rows:
        found[kind_of(row["reason"])] += max(1, row.get("rows") or 1)
    return found


def not_kept(log: TableLog, rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
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


def _stamp(manifest: Manifest) -> dict[str, Any]:
    return {"batch": manifest.batch, "at": manifest.at}


def _rejected(side: SideOutput) -> dict[str, Any]:
    if side["kind"] != FILE:
        return _present(side, "reason", "raw", "cause", *_PLACE, "stream")
    return {**_present(side, "reason", "raw", "stream", "file"), "rows": side["count"]}


def _late(side: SideOutput) -> dict[str, Any]:
    watermark = side["watermark"]
    return {
        **_present(side, "reason", "raw", "stream"),
        "time": _moment(side["event_time"]),
        "watermark": _moment(watermark),
        "late_by": late_by(side),
        "missed": side["missed"],
        "windows": [
            {"window_start": _moment(window["start"]), "window_end": _moment(window["end"])}
            for window in side["windows"]
        ],
    }


def late_by(side: SideOutput) -> float | None:
    """The seconds by which a late row missed its newest window; None before the first watermark."""
    return None if side["watermark"] is None else (side["watermark"] - side["last_end"]) / 1_000_000


def _present(side: SideOutput, *names: str) -> dict[str, Any]:
    """The fields of a side output that have a value, by name."""
    values: Mapping[str, Any] = side
    return {name: values[name] for name in names if values.get(name) is not None}


def _moment(micros: int | None) -> datetime | str | None:
    return None if micros is None else epoch.from_micros(micros, zoned=True)


def of_stream(stream: str, per_table: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A stream's rejected rows: one that several of its tables reject is listed once.

    Rows of other streams in a union are left out; rows whose stream is unknown are included.
    """
    seen: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for table in per_table:
        here: Counter[str] = Counter()
        for row in table:
            if row.get("stream", stream).lower() != stream.lower():
                continue
            here[row["raw"]] += 1
            if here[row["raw"]] > seen[row["raw"]]:
                rows.append(row)
        seen |= here
    return rows
