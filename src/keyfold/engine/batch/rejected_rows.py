"""The rejected rows of a batch as a file, and what most of them were rejected for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine.batch.side_outputs import RowFile
from keyfold.engine.storage.layout import TableHome

# So many kinds of reasons are counted in a batch.
MOST_KINDS: Final = 1000
_OWN: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[+-]?\d[\w.:+-]*")


def kind_of(reason: str) -> str:
    """A reason without what is the row's own: values, numbers and times.

    >>> kind_of('does not parse: column amount: "much" is no double')
    'does not parse: column amount: ... is no double'
    """
    return _OWN.sub("...", reason)


@dataclass(frozen=True)
class Refusal:
    """How many rows a batch rejected, and `most` of them for a reason like this one."""

    batch: int
    rejected: int
    most: int
    reason: str


class RejectedFile(RowFile):
    """The rejected rows of one batch: reason, raw and stream, as the kernel gives them.

    A file that is rejected as a whole is one entry, with how many `rows` it has.
    """

    def __init__(self, home: TableHome, batch: int) -> None:
        super().__init__(home.rejected, batch)
        self._total = 0
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._files: dict[tuple[str | None, str], dict[str, Any]] = {}

    def write(self, found: Sequence[Mapping[str, Any]]) -> None:
        for said in found:
            if "rows" in said:
                self._add(said)
        rows = [said for said in found if "rows" not in said]
        for said in rows:
            self._count(kind_of(said["reason"]), said["reason"], 1)
        super().write(rows)

    def close(self) -> None:
        files = list(self._files.values())
        for said in files:
            # One whose only line was taken for the header has none.
            self._count("header", said["reason"], max(1, said["rows"]))
        super().write(files)
        super().close()

    def refusal(self) -> Refusal | None:
        """What was rejected in the batch, if something was; asked when the file is closed."""
        if not self._total:
            return None
        kind, most = self._kinds.most_common(1)[0]
        return Refusal(self._batch, self._total, most, self._examples[kind])

    def _add(self, said: Mapping[str, Any]) -> None:
        """A part of a file: each task says how many rows it left out, and one of them why."""
        name = (said.get("stream"), said["file"])
        known = self._files.get(name, {"rows": 0})
        self._files[name] = {**said, **known, "rows": known["rows"] + said["rows"]}

    def _count(self, kind: str, reason: str, rows: int) -> None:
        self._total += rows
        if kind in self._examples or len(self._examples) < MOST_KINDS:
            self._examples.setdefault(kind, reason)
            self._kinds[kind] += rows
