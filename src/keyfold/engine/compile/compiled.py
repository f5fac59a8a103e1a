"""A compiled table: its plan, its fingerprint and its view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keyfold.engine.sources.file_names import QueryFiles
from keyfold.kernel.api import PartitionClock, StateMigration
from keyfold.plan.nodes import TableSpec
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Compiled:
    """A table ready to run: its changes as a streaming DataFrame, and what its state depends on."""

    spec: TableSpec
    changes: DataFrame
    meaning: dict[str, str]
    state_schema: str
    view: ViewSchema
    event_time: bool
    rebuilt: Callable[[DataFrame, bool], DataFrame] | None
    """The table's rows, from its state as Spark's statestore source reads it, or from kept windows.

    None if rows can't be made from the state: a processor's is opaque, a pattern's has partial matches.
    """
    clocks: Mapping[str, PartitionClock] = field(default_factory=dict)
    """The kernel's clocks of the partitions of topics, by stream."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """How the state is kept: its kind, its keys, its fields and what each is of; empty for processors."""
    migration: Callable[[str], StateMigration] | None = None
    """The kernel's `StateMigration` from a state of this schema, as JSON."""
    realtime: bool = False
    """Whether it runs in Spark's real-time mode."""

    @property
    def name(self) -> str:
        """The table as errors name it: `app.table`."""
        return f"{self.spec.app}.{self.spec.name}"

    @property
    def files(self) -> QueryFiles:
        """The file sources of the plan."""
        return QueryFiles(self.changes)
