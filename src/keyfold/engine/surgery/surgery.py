"""Removes or changes one key's state: on a copy, with a savepoint first, and published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.engine.operations import unfinished
from keyfold.engine.operations.kinds import REWRITE
from keyfold.engine.savepoint.capture import Progress, capture, name_before
from keyfold.engine.state.parts import StatePart
from keyfold.engine.state.state_of import StateOf
from keyfold.engine.state_reading import state_of
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import rewriting
from keyfold.engine.surgery.key_changes import KeyChanges, Row
from keyfold.engine.surgery.key_erasure import KeyErasure, TableKey, key_of
from keyfold.engine.surgery.key_values import KeyValues
from keyfold.engine.surgery.rewriting import Rewritten, Transform
from keyfold.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyfold.engine.compile.compiled import Compiled


@dataclass(frozen=True)
class Surgery:
    """A key of a table of a stopped app, and a function that receives each step."""

    spark: SparkSession
    home: AppHome
    table: str
    key: TableKey
    batch: int
    why: str | None
    tell: Callable[[str], None]
    progress: Progress

    @property
    def uri(self) -> str:
        """The table's checkpoint, for Spark."""
        return self.home.table(self.table).checkpoint_url

    def require_key(self) -> None:
        """Refuses a key that is in no part of the table's own state."""
        state = state_of(self.home, self.table)
        parts = state.parts(self.spark)
        if not any(self._has_key(state, part) for part in parts if part.operator == 0):
            raise QueryError(
                f"the state of {self.home.path.name}.{self.table} has no such key; nothing was changed",
                reason="not_found",
                given=", ".join(self.key.values),
                hint=f"keyfold state read {self.home.path.name}.{self.table} shows what it has",
            )

    def _has_key(self, state: StateOf, part: StatePart) -> bool:
        from pyspark.sql import functions as F

        found = state.rows(self.spark, part).frame
        if not set(self.key.names) <= set(found.columns):
            return False
        whole = F.struct(*(F.col(f"`{name}`") for name in found.columns))
        return not found.where(self.key.same(whole, found.schema)).isEmpty()

    def carry_out(
        self, what: str, transform: Transform, rows_now: Callable[[Rewritten], Sequence[Row]], **facts: Any
    ) -> dict[str, Any]:
        """Makes the new state beside the old one, publishes the changes, and switches."""
        changes = KeyChanges(self.home, self.table, self.batch, self.key)
        self.tell("making a savepoint")
        undo = name_before(what)
        capture(self.home, undo, (), f"before {what} of {self.table}", self.progress)
        with REWRITE.preparing(self.home, f"{what} of {self.home.path.name}.{self.table} failed"):
            self.tell("writing the new state, beside the old one")
            made = rewriting.rewrite_state(self.spark, self.home, self.table, transform)
            published = changes.publish(
                self.home.storage.below(f"{rewriting.work(self.table)}/log"), rows_now(made)
            )
        entry = audit.entry(
            what,
            self.why,
            tables=[self.table],
            key=self.key.columns,
            batches={self.table: self.batch},
            changes=published,
            undo=undo,
            **facts,
        )
        rewriting.switch(self.home, entry, [self.table])
        return entry


@contextmanager
def begin(
    spark: SparkSession,
    home: AppHome,
    table: str,
    values: Sequence[str],
    why: str | None,
    tell: Callable[[str], None],
    progress: Progress,
) -> Iterator[Surgery]:
    """Holds the home of a stopped app for a change of one key."""
    with unfinished.held(home):
        batch = rewriting.require_stopped_between_batches(home, table)
        key = key_of(home, table, values)
        found = Surgery(spark, home, table, key, batch, why, tell, progress)
        found.require_key()
        yield found


def delete(surgery: Surgery) -> dict[str, Any]:
    """Removes a key from a table's state and its rows from the view; returns the entry for the audit log.

    Tables that read it are notified, as of any deleted row. Later rows create the key again.
    """
    erased = KeyErasure(surgery.spark, surgery.uri, surgery.batch, surgery.key, upstream=False)
    return surgery.carry_out("state delete", erased, lambda _: ())


def put(surgery: Surgery, compiled: Compiled, columns: Mapping[str, str]) -> dict[str, Any]:
    """Sets columns of a key's state; the resulting row is published."""
    values = KeyValues(surgery.spark, surgery.uri, surgery.batch, surgery.key, columns)
    values.require_possible(compiled)

    def rows_now(made: Rewritten) -> Sequence[Row]:
        return values.rows(compiled, made.checkpoint.storage.uri(), made.batch)

    return surgery.carry_out("state put", values, rows_now, columns=dict(columns))
