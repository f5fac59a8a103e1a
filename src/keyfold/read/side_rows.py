"""The rows that were not folded, as values: rejected, late and duplicate ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

Moment = datetime | str
"""A time; as text if its year is none that Python has."""

PLACE: Final = ("file", "line", "byte", "topic", "partition", "offset")
"""Where a rejected row was: in a file, or in a topic."""


@dataclass(frozen=True)
class RejectedRow:
    """A row that could not be used, and where it was; or a file that was rejected with all of its rows."""

    batch: int
    at: datetime
    reason: str | None
    raw: str | None
    cause: str | None = None
    file: str | None = None
    line: int | None = None
    byte: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    stream: str | None = None
    whole_file: bool = False
    rows: int | None = None
    """How many rows a rejected file has."""

    @property
    def text(self) -> str:
        """The reason, with its cause if that is known."""
        return str(self.reason) if self.cause is None else f"{self.reason}: {self.cause}"

    @property
    def count(self) -> int:
        """How many rows it stands for."""
        return max(1, self.rows or 1)

    def document(self) -> dict[str, Any]:
        """The fields that have a value."""
        found = _present(vars(self), "batch", "at", "reason", "raw", "cause", *PLACE, "stream")
        return {**found, "rows": self.rows} if self.whole_file else found


@dataclass(frozen=True)
class Window:
    """The bounds of a window."""

    start: Moment
    end: Moment

    def document(self) -> dict[str, Any]:
        """The bounds by the names of their columns."""
        return {"window_start": self.start, "window_end": self.end}


@dataclass(frozen=True)
class LateRow:
    """A row that came after its windows had closed; `windows` are some of the `missed` ones."""

    batch: int
    at: datetime
    reason: str | None
    raw: str | None
    stream: str | None
    time: Moment | None
    watermark: Moment | None
    late_by: float | None
    missed: int
    windows: tuple[Window, ...]

    def document(self) -> dict[str, Any]:
        """The row with its windows as documents."""
        return {
            **_present(vars(self), "batch", "at", "reason", "raw", "stream"),
            "time": self.time,
            "watermark": self.watermark,
            "late_by": self.late_by,
            "missed": self.missed,
            "windows": [window.document() for window in self.windows],
        }


@dataclass(frozen=True)
class DuplicateRow:
    """What `distinct(record_duplicates=True)` recorded: a row that its step had seen before."""

    batch: int
    at: datetime
    step: str | None
    raw: str | None

    def document(self) -> dict[str, Any]:
        """The fields that have a value."""
        return _present(vars(self), "batch", "at", "step", "raw")


def _present(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields that have a value, by name."""
    return {name: values[name] for name in names if values[name] is not None}
