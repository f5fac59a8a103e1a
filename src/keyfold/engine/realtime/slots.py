"""The task slots that tables in real-time mode hold for as long as they run, counted at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keyfold.errors import RunError


@dataclass(frozen=True)
class Need:
    """What one table needs: a task for each partition of its topics, and for each of its state."""

    table: str
    source: int
    state: int

    @property
    def slots(self) -> int:
        """Tasks that run at the same time."""
        return self.source + self.state


def state_partitions(source: Mapping[str, int], fixed: Mapping[str, int], slots: int) -> dict[str, int]:
    """The state partitions of tables: those that are fixed, and for others an equal share of what is left.

    >>> state_partitions({"a": 2, "b": 2}, {"a": 3}, 12)
    {'a': 3, 'b': 5}
    """
    free = [table for table in source if table not in fixed]
    left = slots - sum(source.values()) - sum(fixed.values())
    share = max(1, left // len(free)) if free else 0
    return {table: fixed.get(table, share) for table in source}


def check(app: str, needs: Sequence[Need], slots: int) -> None:
    """Refuses to start with fewer slots than all tables together need."""
    needed = sum(need.slots for need in needs)
    if needed <= slots:
        return
    each = "; ".join(
        f"{need.table}: {need.source} of its topics' partitions + {need.state} of its state" for need in needs
    )
    raise RunError(
        f"tables with latency='realtime' need {needed} task slots at the same time, and there are {slots}",
        app=app,
        given=each,
        hint=f'a master with {needed} cores, such as master="local[{needed}]" (threads may share cores); '
        "fewer partitions=, which is fixed at a table's first start; or fewer tables in one app",
    )
