"""The changes of a table as its log has them, batch by batch, from a position that a reader keeps.

A position says which batch comes next, and the epoch of the one before it: after a restore or a reset the log
has other batches under the same numbers, and a reader of the old ones must begin anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from keyfold.engine.internal_columns import OP, PREVIOUS, visible
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeUnusable, QueryError

_TEXT: Final = re.compile(r"([0-9]{1,18})(?:e([0-9]{1,18}))?")
Operation = Literal["upsert", "final", "delete"]
Shown = Callable[[], Collection[str]]


@dataclass(frozen=True)
class LogPosition:
    """Where a reader of a log goes on: the next batch, and the epoch of the one before it if known."""

    next: int
    epoch: int | None = None

    def __str__(self) -> str:
        return f"{self.next}" if self.epoch is None else f"{self.next}e{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """The position of a text made by `str`."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise QueryError("not a position in a log", given=text, hint="the id of an event, as it was")
        return cls(int(found[1]), None if found[2] is None else int(found[2]))


@dataclass(frozen=True)
class RowChange:
    """A change: the key, and the row after it; None after a delete.

    `before`: the row before it; only where the log has it, as `has_before` says, which is so if another table
    needs it to retract.
    """

    op: Operation
    key: Mapping[str, Any]
    after: Mapping[str, Any] | None
    before: Mapping[str, Any] | None = None
    has_before: bool = False

    def document(self) -> dict[str, Any]:
        """The fields by name; `before` only if the log has it."""
        found = {"op": self.op, "key": self.key, "after": self.after}
        return {**found, "before": self.before} if self.has_before else found


class PositionGone(QueryError):
    """The log no longer has the changes from a position on; `oldest` is the first position that it has."""

    def __init__(self, what: str, *, oldest: LogPosition, **parts: Any) -> None:
        super().__init__(what, reason="gone", **parts)
        self.oldest = oldest


class TableChanges:
    """Reads the changes of one table of an app, whose key has these columns."""

    def __init__(
        self, home: AppHome, log: TableLog, name: str, keys: Sequence[str], shown: Shown | None = None
    ) -> None:
        self.log, self.name, self._home, self._keys, self._shown = log, name, home, tuple(keys), shown

    def of_columns(self, shown: Shown) -> TableChanges:
        """The same with some columns alone, which are asked for again with each batch: they may change."""
        return TableChanges(self._home, self.log, self.name, self._keys, shown)

    def end(self) -> LogPosition:
        """The position behind the newest batch."""
        newest = self.log.newest()
        return LogPosition(totals(self.log).upto + 1) if newest is None else self.behind(newest)

    def behind(self, batch: int) -> LogPosition:
        """The position behind a batch."""
        manifest = self.log.find(batch)
        return LogPosition(batch + 1, None if manifest is None else manifest.epoch)

    def oldest(self) -> LogPosition:
        """The first position from which on the log has all changes."""
        first = totals(self.log).upto + 1
        for manifest in self.log.after(first - 1):
            if not manifest.has_its_changes:
                first = manifest.batch + 1
        return LogPosition(first)

    def require(self, position: LogPosition) -> None:
        """Refuses a position from which on changes are missing, or which is one of another log."""
        if position.next <= totals(self.log).upto:
            raise self._gone(f"batch {position.next} has been removed from the log", position)
        if position.next > self._last() + 1:
            self._require_home()
        # Again, since the home may have come back only now.
        if position.next > self._last() + 1:
            raise self._gone("the log ends before this position: the table was reset or restored", position)
        before = self.log.find(position.next - 1)
        if position.epoch is not None and before is not None and before.epoch != position.epoch:
            raise self._gone("the log has other batches since: the table was reset or restored", position)

    def _last(self) -> int:
        newest = self.log.newest()
        return max(-1 if newest is None else newest, totals(self.log).upto)

    def _require_home(self) -> None:
        """Refuses to read a home that is away: its log would seem to be empty."""
        if not self._home.read_plan().exists:
            hint = "bring it back, or mount it again; readers then go on where they were"
            what = "the app's home is not there"
            raise QueryError(what, reason="not_ready", where=self._home.shown, hint=hint)

    def batches(self, position: LogPosition) -> Iterator[tuple[Manifest, Iterator[RowChange]]]:
        """The batches from a position on, each with its changes; a lost one is a `PositionGone`."""
        try:
            for manifest in self.log.after(position.next - 1):
                if not manifest.has_its_changes:
                    raise self._gone(f"batch {manifest.batch} has no changes in the log", position)
                yield manifest, self._changes(manifest, position)
        except HomeUnusable:
            self.require(position)
            raise

    def _changes(self, manifest: Manifest, position: LogPosition) -> Iterator[RowChange]:
        try:
            for found in self.log.rows(manifest, "change"):
                names = visible(name for name in found.schema.names if name != OP)
                if self._shown is not None:
                    shown = self._shown()
                    names = [name for name in names if name in shown]
                has_before = PREVIOUS in found.schema.names
                for row in found.to_pylist():
                    yield self._change(row, names, has_before)
        except HomeUnusable:
            # Removed while it was read, or damaged.
            self.require(position)
            raise

    def _change(self, row: dict[str, Any], names: list[str], has_before: bool) -> RowChange:
        op: Operation = row[OP]
        key = {name: row[name] for name in self._keys if name in row}
        after = None if op == "delete" else {name: row[name] for name in names}
        before = row.get(PREVIOUS)
        # It may lack the key, which is that of the change.
        old = None if before is None else {**key, **{n: v for n, v in before.items() if n in names}}
        return RowChange(op, key, after, old, has_before)

    def _gone(self, what: str, position: LogPosition) -> PositionGone:
        oldest = self.oldest()
        hint = f"begin with a snapshot, or at position {oldest}"
        return PositionGone(what, oldest=oldest, where=self.name, given=position, hint=hint)
