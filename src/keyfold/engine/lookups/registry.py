"""The lookups of a running app: loaded whole, broadcast to every task, and reloaded without a restart.

A table's plan refers to the lookup, not to its rows: each batch uses the newest version when it begins. A
reload that fails leaves the last good version in place and is reported once, on stderr and in the status.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from keyfold.engine.lookups import static_reader
from keyfold.errors import BadOption, KeyfoldError, QueryError, choice, did_you_mean
from keyfold.kernel.api import LoadedLookup as ReadLookup
from keyfold.kernel.api import LookupTable, TableApi
from keyfold.plan import nodes
from keyfold.read.metrics import LookupStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LoadedLookup:
    """One lookup of a running app: its newest version, and how its last reload went."""

    def __init__(self, spark: SparkSession, lookup: nodes.Lookup, kernel: LookupTable) -> None:
        self.lookup, self.kernel, self.keys = lookup, kernel, set[tuple[str, ...]]()
        self._spark = spark
        self._lock = threading.Lock()
        self.status = LookupStatus(rows=0, loaded=None, version=0, error=None)
        """Rows, when they were loaded, their version, and the error of the last reload."""
        self.due = 0.0

    def load(self) -> None:
        """Reads the rows, which later batches use. A failure leaves the last version in place."""
        with self._lock:
            self.due = time.monotonic() + (self.lookup.refresh_ms or 0) / 1000
            frame = static_reader.frame_of(self._spark, self.lookup)
            with static_reader.explain_errors(self.lookup):
                keys = [list(key) for key in sorted(self.keys)]
                read = self.kernel.read(frame._jdf, keys, self.lookup.duplicates)
            self._check(read)
            if self.kernel.take(frame._jdf, read):
                now, version = datetime.now(UTC), self.status.version + 1
                self.status = LookupStatus(rows=read.rows(), loaded=now, version=version, error=None)
            self.status = replace(self.status, error=None)

    def reload(self) -> None:
        """As `load`, but a failure is recorded and reported once instead of raised."""
        before = self.status.error
        try:
            self.load()
        except KeyfoldError as error:
            self.status = replace(self.status, error=str(error))
            if str(error) != before:
                _report(f"{error}\n  now: version {self.status.version} stays in use")
        else:
            if before is not None:
                _report(f"lookup {self.lookup.name} can be read again")

    def _check(self, read: ReadLookup) -> None:
        name, where = self.lookup.name, static_reader.home(self.lookup)
        if read.repeated():
            raise BadOption(
                f"lookup {name} has keys with several rows",
                where=where,
                given="; ".join(read.repeated()),
                hint='correct the rows, or choose one with duplicates="first" or "last"',
            )
        if not read.rows() and self.status.rows:
            raise BadOption(
                f"lookup {name} has no rows any more: its source may be incomplete",
                where=where,
                given=f"{self.status.rows} rows before",
                hint="restart the app if the lookup is meant to be empty",
            )
        if read.unkeyed():
            raise BadOption(
                f"no row of lookup {name} has a key: its columns seem to differ from the schema",
                where=where,
                given=self.lookup.schema,
                hint="correct the schema or the source",
            )


class Lookups:
    """The lookups of an app, each loaded once for all its tables, and the thread that reloads them."""

    def __init__(self, spark: SparkSession, api: TableApi) -> None:
        self._spark, self._api = spark, api
        self._lookups: dict[str, LoadedLookup] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-lookups", daemon=True)

    def register(self, lookup: nodes.Lookup, key: tuple[str, ...]) -> LoadedLookup:
        """The lookup, indexed by these columns when it is loaded."""
        loaded = LoadedLookup(self._spark, lookup, self._api.lookup())
        known = self._lookups.setdefault(lookup.name.lower(), loaded)
        known.keys.add(key)
        return known

    def load(self) -> None:
        """Loads all of them; a start fails if one can't be read."""
        for lookup in self._lookups.values():
            lookup.load()

    def refresh(self, name: str) -> LookupStatus:
        """Reloads one now; returns its status."""
        lookup = self._lookups.get(name.lower())
        if lookup is None:
            names = [known.lookup.name for known in self._lookups.values()]
            hint = did_you_mean(name, names, choice(names) if names else None)
            raise QueryError(f"the app has no lookup {name}", reason="not_found", given=name, hint=hint)
        lookup.reload()
        return lookup.status

    def status(self) -> dict[str, LookupStatus]:
        """The status of each lookup by name."""
        return {lookup.lookup.name: lookup.status for lookup in self._lookups.values()}

    def watch(self) -> None:
        """Starts to reload those that have a `refresh`."""
        if any(lookup.lookup.refresh_ms for lookup in self._lookups.values()):
            self._thread.start()

    def close(self, seconds: float = 10.0) -> None:
        """Ends the thread; if it hangs in a source it is abandoned."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _watch(self) -> None:
        scheduled = [lookup for lookup in self._lookups.values() if lookup.lookup.refresh_ms]
        while not self._stopped.wait(max(0.0, min(lookup.due for lookup in scheduled) - time.monotonic())):
            for lookup in scheduled:
                if lookup.due <= time.monotonic() and not self._stopped.is_set():
                    with suppress(
                        Exception
                    ):  # the session is stopping; errors of the source are reported by `reload`
                        lookup.reload()


def _report(text: str) -> None:
    print(f"keyfold: {text}", file=sys.stderr, flush=True)
