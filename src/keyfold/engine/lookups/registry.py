"""Static sides: rows that are read as a whole, given to every task, and read again without a restart.

A table's plan holds the lookup and not its rows: a batch takes the newest version when it begins. A reload
that fails leaves the version before it in place and is told once, on stderr and in the status.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from keyfold.engine.lookups import static_reader
from keyfold.engine.spark_errors import explained
from keyfold.errors import BadExpression, BadOption, KeyfoldError, QueryError, did_you_mean
from keyfold.plan import nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def looked_up(context: Any, node: nodes.LookupJoin) -> Any:
    """The kernel's pipeline on rows with what the lookup has for them."""
    lookup = node.lookup
    before = context.end(context.rows(node.input))
    where = context.where(f"lookup {lookup.name}", node.site)
    theirs = static_reader.schema_of(lookup)
    mine = {name: kind for name, kind in before.dtypes if not name.startswith("_kf_")}
    _check_keys(node, mine, {f.name: f.dataType.simpleString() for f in theirs.fields}, where)
    names = _names(node, list(mine), theirs.names, where)
    side = context.lookups.of(lookup, node.on)
    with explained(context.spark, f"lookup {lookup.name}", where, f"on {', '.join(node.on)}"):
        java = side.kernel.looked(before._jdf, theirs.json(), list(node.on), names, node.how == "inner")
    columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in theirs.fields)
    context.meaning[f"{context.stages}:lookup:{lookup.name}"] = (
        f"{node.how} on {', '.join(node.on)}: {columns}"
    )
    streams = nodes.sources(node)
    return context.begin(node, context.frame(java), streams[0].name if len(streams) == 1 else None)


def _check_keys(
    node: nodes.LookupJoin, mine: Mapping[str, str], theirs: Mapping[str, str], where: str
) -> None:
    for column in node.on:
        if column.lower() not in (name.lower() for name in mine):
            hint = did_you_mean(column, mine, f"one of {', '.join(mine)}")
            raise BadExpression(f"the stream has no column {column}", where=where, given=column, hint=hint)
        kinds = [next(k for n, k in c.items() if n.lower() == column.lower()) for c in (mine, theirs)]
        if kinds[0] != kinds[1]:
            raise BadExpression(
                f"{column} is {kinds[0]} in the stream and {kinds[1]} in lookup {node.lookup.name}",
                where=where,
                given=f"on {column}",
                hint=f"declare the lookup's {column} as {kinds[0]}, or cast the stream's with select",
            )


def _names(node: nodes.LookupJoin, mine: list[str], theirs: Iterable[str], where: str) -> dict[str, str]:
    """What the lookup's columns are called beside the stream's."""
    on = {column.lower() for column in node.on}
    taken = {name.lower() for name in mine}
    others = [name for name in theirs if name.lower() not in on]
    names = {n: f"{node.lookup.name}_{n}" if n.lower() in taken else n for n in others}
    for column, name in names.items():
        if name.lower() in taken:
            raise BadOption(
                f"column {column} of lookup {node.lookup.name} can't be called {name}: there is one",
                where=where,
                given=", ".join(mine),
                hint=f"rename {name} with select before, or {column} in the lookup's schema",
            )
        taken.add(name.lower())
    return names


class Side:
    """One lookup of a running app: what is held of it, and how its last reload went."""

    def __init__(self, spark: SparkSession, lookup: nodes.Lookup, kernel: Any) -> None:
        self.lookup, self.kernel, self.ons = lookup, kernel, set[tuple[str, ...]]()
        self._spark = spark
        self._lock = threading.Lock()
        self._status: dict[str, Any] = {"rows": 0, "loaded": None, "version": 0, "error": None}
        self.due = 0.0

    def load(self) -> None:
        """Reads the rows; unless that fails, batches that begin from now on see them."""
        with self._lock:
            self.due = time.monotonic() + (self.lookup.refresh_ms or 0) / 1000
            frame = static_reader.frame_of(self._spark, self.lookup)
            with static_reader.unread(self.lookup):
                ons = [list(on) for on in sorted(self.ons)]
                read = self.kernel.read(frame._jdf, ons, self.lookup.duplicates)
            self._check(read)
            if self.kernel.take(frame._jdf, read):
                version = self._status["version"] + 1
                self._status = {"rows": read.rows(), "loaded": datetime.now(UTC), "version": version}
            self._status = {**self._status, "error": None}

    def reload(self) -> None:
        """As `load`, but what goes wrong is told, once, and the rows stay as they are."""
        before = self._status["error"]
        try:
            self.load()
        except KeyfoldError as error:
            self._status = {**self._status, "error": str(error)}
            if str(error) != before:
                _say(f"{error}\n  now: version {self._status['version']} stays in use")
        else:
            if before is not None:
                _say(f"lookup {self.lookup.name} can be read again")

    def status(self) -> dict[str, Any]:
        return dict(self._status)

    def _check(self, read: Any) -> None:
        name, where = self.lookup.name, static_reader.place(self.lookup)
        if read.repeated():
            raise BadOption(
                f"lookup {name} has keys with several rows",
                where=where,
                given="; ".join(read.repeated()),
                hint='correct the rows, or say which to take: duplicates="first" or "last"',
            )
        if not read.rows() and self._status["rows"]:
            raise BadOption(
                f"lookup {name} has no rows any more, which is taken for a file half written",
                where=where,
                given=f"{self._status['rows']} rows before",
                hint="restart the app if it is to have none",
            )
        if read.unkeyed():
            raise BadOption(
                f"no row of lookup {name} has a key: it seems to have other columns than the schema",
                where=where,
                given=self.lookup.schema,
                hint="correct the schema or the source",
            )


class Lookups:
    """The lookups of one app, each held once however many tables use it, and the thread that reloads them."""

    def __init__(self, spark: SparkSession, api: Any) -> None:
        self._spark, self._api = spark, api
        self._sides: dict[str, Side] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-lookups", daemon=True)

    def of(self, lookup: nodes.Lookup, on: tuple[str, ...]) -> Side:
        """The lookup, to be looked up by these columns."""
        known = self._sides.setdefault(lookup.name.lower(), Side(self._spark, lookup, self._api.lookup()))
        known.ons.add(on)
        return known

    def load(self) -> None:
        """Reads all of them; a start does not go on without."""
        for side in self._sides.values():
            side.load()

    def refresh(self, name: str) -> dict[str, Any]:
        """Reads one again now; returns how that went, as `status` has it."""
        side = self._sides.get(name.lower())
        if side is None:
            names = [s.lookup.name for s in self._sides.values()]
            hint = did_you_mean(name, names, f"one of {', '.join(names)}" if names else None)
            raise QueryError(f"the app has no lookup {name}", reason="not_found", given=name, hint=hint)
        side.reload()
        return side.status()

    def status(self) -> dict[str, dict[str, Any]]:
        """Rows, when they were loaded, which version they are, and what is wrong with the newest."""
        return {side.lookup.name: side.status() for side in self._sides.values()}

    def watch(self) -> None:
        """Begins to reload those that have a `refresh`."""
        if any(side.lookup.refresh_ms for side in self._sides.values()):
            self._thread.start()

    def close(self, seconds: float = 10.0) -> None:
        """Ends the thread; one that waits for its source is left behind."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _watch(self) -> None:
        sides = [side for side in self._sides.values() if side.lookup.refresh_ms]
        while not self._over.wait(max(0.0, min(side.due for side in sides) - time.monotonic())):
            for side in sides:
                if side.due <= time.monotonic() and not self._over.is_set():
                    with suppress(Exception):  # a session on its way down; what a source says is told
                        side.reload()


def _say(text: str) -> None:
    print(f"keyfold: {text}", file=sys.stderr, flush=True)
