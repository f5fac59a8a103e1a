"""A processor of the user's as keyfold hands it to Spark: what workers run."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def for_workers(own: Any) -> None:
    """Lets workers have a processor whose module they could not import: a test's, or one beside the app."""
    from pyspark import cloudpickle

    by_value: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    for kind in type(own).__mro__:
        module = sys.modules.get(kind.__module__)
        if module is not None and not _importable(module):
            by_value(module)


def _importable(module: ModuleType) -> bool:
    """Whether a module is Python's own, installed, or on the path that workers are given."""
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    path = Path(file).resolve()
    path = path.parent if path.name == "__init__.py" else path
    given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    roots = [Path(root).resolve() for root in (*sysconfig.get_paths().values(), *given)]
    return path.parents[module.__name__.count(".")] in roots


def wrap(own: Any, shown: list[str], keys: list[str], output: list[str], kept: Any | None) -> Any:
    """The user's processor, without keyfold's columns in its rows and with them in what it gives.

    The class is made here, so that workers get it as it is and need no keyfold of their own. `kept` is a
    schema: the last row of each key is kept by it, to tell what a row was before.
    """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Given(dict):  # type: ignore[type-arg]
        """What PySpark asks of a row: itself as a dict."""

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
            self.last = handle.getValueState("_kf_prev", kept) if kept else None
            own.init(handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            if key[0] is None:
                return (Given({"_kf_side": row["_kf_side"]}) for row in rows)
            width, row = len(shown), self.row
            return self.emit(key, own.handleInputRows(key, (row(*r[:width]) for r in rows), timerValues), 0)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            # After the key's rows, however many timers of it are due in one batch.
            name, found = repr(key), own.handleExpiredTimer(key, timerValues, expiredTimerInfo)
            self.timed[name] = yield from self.emit(key, found, self.timed.get(name, 1 << 31))

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            own.handleInitialState(key, initialState, timerValues)

        def close(self) -> None:
            own.close()

        def emit(self, key: Any, rows: Any, n: int) -> Any:
            held = self.last.get() if self.last else None
            before, begun = dict(zip(columns, held, strict=True)) if held else None, n
            for row in rows or ():
                made = self.given(key, row)
                made["_kf_seq"], made["_kf_prev"] = self.first + n, before
                n += 1
                if self.last:
                    gone = made.get("_op") == "delete"
                    before = None if gone else {c: made.get(c) for c in columns} | {"_op": "upsert"}
                yield made
            if self.last and n > begun:
                self.last.clear() if before is None else self.last.update(tuple(before.values()))
            return n

        def given(self, key: Any, row: Any) -> Given:
            made = Given(row.asDict(True) if hasattr(row, "asDict") else row)
            if not made.keys() <= known:
                more = ", ".join(sorted(map(str, made.keys() - known)))
                raise ValueError(f"a row has columns that are not in output: {more}")
            if not all(same(made.get(p), k) for p, k in zip(places, key, strict=True)):
                raise ValueError(f"a row of key {[made.get(p) for p in places]} was given for {list(key)}")
            if made.get("_op") not in (None, "upsert", "delete"):
                raise ValueError(f"_op is 'upsert' or 'delete', not {made['_op']!r}")
            return made

    return Wrapped()
