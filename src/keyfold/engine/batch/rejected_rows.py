"""The rejected rows of a batch as a file, and the most frequent kind of reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine.batch.side_outputs import SideOutput, SideOutputFile, present
from keyfold.engine.storage.layout import TableHome

MOST_KINDS: Final = 1000
"""At most this many kinds of reasons are counted in a batch."""
FILE: Final = "file"
"""The kind of side output that stands for a rejected file."""
_OWN: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[+-]?\d[\w.:+-]*")


def kind_of(reason: str) -> str:
    """A reason without the row's own values, numbers and times.

    >>> kind_of('does not parse: column amount: "much" is no double')
    'does not parse: column amount: ... is no double'
    """
    return _OWN.sub("...", reason)


@dataclass(frozen=True)
class Refusal:
    """How many rows a batch rejected, `most` of them for reasons of the same kind as this one."""

    batch: int
    rejected: int
    most: int
    reason: str


class RejectedFile(SideOutputFile):
    """The rejected rows of one batch: reason, raw, stream, and where the row was read.

    A file that is rejected as a whole is one entry, with its number of `rows`.
    """

    def __init__(self, home: TableHome, batch: int) -> None:
        super().__init__(home.rejected, batch)
        self._total = 0
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._files: dict[tuple[str | None, str | None], SideOutput] = {}

    def write(self, found: Sequence[SideOutput]) -> None:
        rows = []
        for side in found:
            if side.get("kind") == FILE:
                self._add(side)
            else:
                reason = side["reason"] or ""
                self._count(kind_of(reason), reason, 1)
                rows.append(side)
        super().write(rows)

    def close(self) -> None:
        files = list(self._files.values())
        for side in files:
            # A file whose only line was read as its header has no rows.
            self._count("header", side.get("reason") or "", max(1, side["count"]))
        super().write(files)
        super().close()

    def refusal(self) -> Refusal | None:
        """The batch's most frequent kind of reason, if rows were rejected; known once the file is closed."""
        if not self._total:
            return None
        kind, most = self._kinds.most_common(1)[0]
        return Refusal(self._batch, self._total, most, self._examples[kind])

    def _row(self, side: SideOutput) -> Mapping[str, Any]:
        if side.get("kind") != FILE:
            return super()._row(side)
        return {**present(side, "reason", "raw", "stream", "file"), "rows": side["count"]}

    def _add(self, side: SideOutput) -> None:
        """Adds a part of a file: each task counts the rows that it read, and one task has the reason."""
        name = (side.get("stream"), side.get("file"))
        known = self._files.setdefault(name, {**side, "count": 0})
        known["count"] += side["count"]
        if side.get("reason") is not None:
            known["reason"], known["raw"] = side["reason"], side["raw"]

    def _count(self, kind: str, reason: str, rows: int) -> None:
        self._total += rows
        if kind in self._examples or len(self._examples) < MOST_KINDS:
            self._examples.setdefault(kind, reason)
            self._kinds[kind] += rows
