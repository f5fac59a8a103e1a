"""The user's processor as keyfold hands it to Spark: what Python workers run."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from keyfold.engine.internal_columns import OP, PREVIOUS, SEQUENCE, SIDE_OUTPUT


def for_workers(own: Any) -> None:
    """Pickles a processor by value if workers can't import its module: a test's, or one beside the app."""
    from pyspark import cloudpickle

    by_value: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    for kind in type(own).__mro__:
        module = sys.modules.get(kind.__module__)
        if module is not None and not _importable(module):
            by_value(module)


def _importable(module: ModuleType) -> bool:
    """Whether a module is built in, installed, or on the workers' path."""
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    path = Path(file).resolve()
    path = path.parent if path.name == "__init__.py" else path
    extra = [home for home in os.environ.get("PYTHONPATH", "").split(os.pathsep) if home]
    roots = [Path(root).resolve() for root in (*sysconfig.get_paths().values(), *extra)]
    return path.parents[module.__name__.count(".")] in roots


def wrap(own: Any, shown: list[str], keys: list[str], output: list[str], kept: Any | None) -> Any:
    """The user's processor, with keyfold's columns removed from its input and added to its output.

    The class is local, so that it is pickled by value and workers need no keyfold of their own. `kept` is
    the schema in which the last row of each key is kept, so that a change can carry the old row.
    """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class OutputRow(dict):  # type: ignore[type-arg]
        """A dict with the one method of a `Row` that PySpark calls."""

        def asDict(self, recursive: bool = False) -> dict[str, Any]:
            return self

    places = [next(n for n in output if n.lower() == k.lower()) for k in keys]
    known = frozenset(output)
    columns = [] if kept is None else kept.names

    def same(a: Any, b: Any) -> bool:
        return bool(a == b or (a != a and b != b))

    class Wrapped(StatefulProcessor):
        def init(self, handle: Any) -> None:
            from pyspark import TaskContext
            from pyspark.sql import Row

            task = TaskContext.get()
            batch = int((task and task.getLocalProperty("streaming.sql.batchId")) or 0)
            self.first = batch << 32
            self.timed: dict[str, int] = {}
            self.row = Row(*shown)
            self.last = handle.getValueState(PREVIOUS, kept) if kept else None
            own.init(handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            if key[0] is None:
                return (OutputRow({SIDE_OUTPUT: row[SIDE_OUTPUT]}) for row in rows)
            width, row = len(shown), self.row
            return self.emit(key, own.handleInputRows(key, (row(*r[:width]) for r in rows), timerValues), 0)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            # Numbered after the key's rows, however many of its timers expire in one batch.
            name, found = repr(key), own.handleExpiredTimer(key, timerValues, expiredTimerInfo)
            self.timed[name] = yield from self.emit(key, found, self.timed.get(name, 1 << 31))

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            own.handleInitialState(key, initialState, timerValues)

        def close(self) -> None:
            own.close()

        def emit(self, key: Any, rows: Any, n: int) -> Any:
            kept = self.last.get() if self.last else None
            before, begun = dict(zip(columns, kept, strict=True)) if kept else None, n
            for row in rows or ():
                made = self.checked(key, row)
                made[SEQUENCE], made[PREVIOUS] = self.first + n, before
                n += 1
                if self.last:
                    deleted = made.get(OP) == "delete"
                    before = None if deleted else {c: made.get(c) for c in columns} | {OP: "upsert"}
                yield made
            if self.last and n > begun:
                self.last.clear() if before is None else self.last.update(tuple(before.values()))
            return n

        def checked(self, key: Any, row: Any) -> OutputRow:
            made = OutputRow(row.asDict(True) if hasattr(row, "asDict") else row)
            if not made.keys() <= known:
                more = ", ".join(sorted(map(str, made.keys() - known)))
                raise ValueError(f"a row has columns that are not in output: {more}")
            if not all(same(made.get(p), k) for p, k in zip(places, key, strict=True)):
                raise ValueError(
                    f"a row of key {[made.get(p) for p in places]} was emitted for key {list(key)}"
                )
            if made.get(OP) not in (None, "upsert", "delete"):
                raise ValueError(f"{OP} is 'upsert' or 'delete', not {made[OP]!r}")
            return made

    return Wrapped()
