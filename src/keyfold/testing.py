"""`drive`: runs an app under a test's control, on the real engine.

```python
from keyfold.testing import drive

with drive(app) as d:
    d.push("orders", [{"id": "1", "region": "eu", "amount": 10.0}])
    assert d.rows("region_totals")[0]["orders"] == 1
```

The test pushes the rows of streams, whatever their sources; everything else is as in production: Spark, the
kernel, checkpoints, views. All drives of a process share one local session.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keyfold import private
from keyfold.declare import App
from keyfold.engine import session, start
from keyfold.engine.batch.hook import TableHook
from keyfold.engine.handle import Handle
from keyfold.engine.internal_columns import CONTROL
from keyfold.engine.log import changes
from keyfold.engine.sources.json_rows import encode, put
from keyfold.engine.startup.options import StartOptions
from keyfold.errors import BadOption, QueryError, choice, did_you_mean
from keyfold.plan.nodes import AppSpec, Source
from keyfold.plan.validate.known_columns import of_source
from keyfold.settings import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shared: list[SparkSession] = []

# Small batches: two partitions show the effect of partitioning, and more would only cost time.
_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.minBatchesToRetain": "10",
}


def shared_session() -> SparkSession:
    """The local session that all drives of this process share."""
    if not _shared:
        logs = tempfile.mkdtemp(prefix="keyfold-logs-")
        atexit.register(shutil.rmtree, logs, ignore_errors=True)
        _shared.append(session.own_session(load(master="local[2]", driver_memory="2g", home=logs), _SMALL))
        atexit.register(_shared[0].stop)
    return _shared[0]


def drive(
    app: App | AppSpec,
    *,
    home: str | Path | None = None,
    spark: Any = None,
    sinks: bool = True,
    **settings: Any,
) -> Driver:
    """An app under the test's control, for a `with` statement. Without `home` its files are temporary.

    `spark` is a session, or a dict of Spark settings in addition to those of the shared session. With
    `sinks=False` nothing is sent to sinks, which need not be there; `changes` has what they would get.
    """
    if isinstance(spark, Mapping):
        settings, spark = {**settings, "spark": dict(spark)}, None
    spec = app if isinstance(app, AppSpec) else app.spec()
    if not sinks:
        spec = replace(spec, tables=tuple(replace(table, sinks=()) for table in spec.tables))
    return Driver(spec, None if home is None else Path(home), spark, settings)


class Driver:
    """Feeds an app, and reads its tables, changes and side outputs."""

    def __init__(self, spec: AppSpec, home: Path | None, spark: Any, settings: Mapping[str, Any]) -> None:
        self._spec = spec
        self._temporary = home is None
        self._home = home.resolve() if home else Path(tempfile.mkdtemp(prefix="keyfold-"))
        self._spark = spark
        self._settings = settings
        self._files = 0
        self._read: dict[str, int] = {}
        self._handle: Handle | None = None

    def __enter__(self) -> Driver:
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.stop()
            self._handle = None
        self._remove()

    def _remove(self) -> None:
        if self._temporary:
            shutil.rmtree(self._home, ignore_errors=True)

    @property
    def handle(self) -> Handle:
        """The running app, as `app.start()` returns it."""
        if self._handle is None:
            raise QueryError(
                "the app is not running", reason="not_ready", hint="use drive(...) in a with statement"
            )
        return self._handle

    def push(self, stream: str, rows: Iterable[Mapping[str, Any] | str]) -> None:
        """Feeds one batch of rows; returns when all tables have processed it.

        Columns that a row lacks are null; those that the stream does not have are refused. A string is a raw
        line, fed as it is.
        """
        source, given = self._stream(stream), [] if isinstance(rows, str | Mapping) else list(rows)
        if isinstance(rows, str | Mapping) or not all(isinstance(row, str | Mapping) for row in given):
            hint = f'd.push({stream!r}, [{{"id": "1"}}])'
            raise BadOption("push takes a list of rows: dicts, or lines of text", given=rows, hint=hint)
        for row in given:
            _refuse_unknown(source, row)
        self._feed(source, encode(given))

    def advance(self, stream: str, to: str | datetime) -> None:
        """Advances the stream's event time without a row; returns when all due timers have fired."""
        source = self._stream(stream)
        if source.time is None:
            raise QueryError(
                f"stream {stream} has no event time",
                given=f"advance({stream!r})",
                hint="declare it with time=...",
            )
        self._feed(source, encode([{source.time: to, CONTROL: True}]))

    def rows(self, table: str, **options: Any) -> list[dict[str, Any]]:
        """The view's rows, keys first, without `_batch` and `_at`."""
        found = self.handle.table(table).rows(**options)
        return [{k: v for k, v in row.items() if k not in ("_batch", "_at")} for row in found]

    def get(self, table: str, *key: Any) -> dict[str, Any] | None:
        """The row of one key, or None."""
        return self.handle.table(table).get(*key)

    def changes(self, table: str) -> list[dict[str, Any]]:
        """The changes since the last call, each with `_op`."""
        self.handle.table(table)  # raises if the table doesn't exist
        hook = self.handle.hooks[table]
        assert isinstance(hook, TableHook)
        found = list(changes.rows(hook.log, hook.schema, self._read.get(table, -1)))
        self._read[table] = max(hook.log.batches(), default=-1)
        return [{k: v for k, v in row.items() if k != "_batch"} for row in found]

    def rejected(self, name: str) -> list[dict[str, Any]]:
        """The rejected rows of a stream or a table: reason, raw, batch, at."""
        return self.handle.rejected(name)

    def late(self, table: str) -> list[dict[str, Any]]:
        """The late rows of a table: time, late_by, missed, windows, raw."""
        return self.handle.late(table)

    def duplicates(self, table: str) -> list[dict[str, Any]]:
        """The duplicates that `distinct(..., record_duplicates=True)` recorded: step, raw, batch, at."""
        return self.handle.duplicates(table)

    def restart(self) -> None:
        """Stops the app and starts it again from its checkpoint."""
        self.handle.stop()
        self._start()

    def crash(self) -> None:
        """Repeats each table's last batch, as after a crash between state commit and batch commit.

        And that of each stream which has a log.
        """
        self.handle.stop()
        app_home = self.handle.home
        homes = [app_home.stream_home(stream.name) for stream in self.handle.shared]
        for home in (*homes, *(app_home.table(table.name) for table in self._spec.tables)):
            home.spark.uncommit_last()
        self._start()

    def _start(self) -> None:
        feeds = {s.name: self._feed_directory(s) for s in self._spec.streams}
        self._handle = start.start(
            self._spec,
            spark=self._spark or shared_session(),
            home=self._home,
            settings=self._settings,
            options=StartOptions(feeds=feeds, changelog=True),
        )
        try:
            self._handle.drain()
        except BaseException:
            # A batch that fails again must not leave the home locked.
            self._handle.stop()
            raise

    def _feed_directory(self, stream: Source) -> Path:
        directory = self._home / self._spec.name / "feeds" / stream.name
        return private.directory(directory)

    def _feed(self, stream: Source, lines: str) -> None:
        self._files += 1
        put(self._feed_directory(stream), f"{self._files:06d}-{datetime.now(UTC):%H%M%S%f}", lines)
        self.handle.drain()

    def _stream(self, name: str) -> Source:
        for stream in self._spec.streams:
            if stream.name == name:
                return stream
        names = [s.name for s in self._spec.streams]
        hint = did_you_mean(name, names, choice(names))
        raise QueryError(
            f"no stream {name} in app {self._spec.name}", reason="not_found", given=name, hint=hint
        )


def _refuse_unknown(stream: Source, row: Mapping[str, Any] | str) -> None:
    """Refuses a row with a column that the stream does not have, which its reader would ignore."""
    known = of_source(stream)
    if known is None or isinstance(row, str):
        return
    # Compared exactly, as Spark reads fields of JSON by their exact names.
    for name in row:
        if name not in known:
            raise QueryError(
                f"stream {stream.name} has no column {name!r}",
                where=stream.site,
                given=f"push({stream.name!r}, [{dict(row)!r}])",
                hint=did_you_mean(name, known, choice(known)),
            )
