"""The life of an app's queries: start, read, drain, stop."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import aside, fits, session
from keyfold.engine.batch import BatchHook, Stopping
from keyfold.engine.compile import Compiled, compile_app
from keyfold.engine.failures import failed
from keyfold.engine.feeding import encode, put
from keyfold.engine.home import AppHome, Lock, app_home, jvm_pid, wait_until
from keyfold.engine.reading import LiveTable
from keyfold.errors import QueryError, did_you_mean
from keyfold.plan import checks, nodes
from keyfold.plan.nodes import AppSpec
from keyfold.settings import Settings, load
from keyfold.views.contract import ViewSchema, ViewStore
from keyfold.views.none import NoViews
from keyfold.views.reader import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# The number of partitions is a setting of the session when a query starts: one start at a time.
_STARTING = threading.Lock()


def start(
    spec: AppSpec,
    *,
    spark: Any = None,
    home: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Path] | None = None,
    changelog: bool = False,
) -> Handle:
    """Starts every table of the app and returns at once."""
    checks.require_tables(spec)
    wanted = load(home=home, **dict(settings or {}))
    place = app_home(wanted.home, spec.name)
    lock = Lock(place).take()
    try:
        own = session.own_session(wanted) if spark is None else session.users_session(spark, wanted)
        lock.holds_jvm(jvm_pid(own.sparkContext._gateway))
        return _started(spec, own, place, lock, wanted, feeds or {}, changelog)
    except BaseException:
        lock.release()
        raise


def _started(
    spec: AppSpec,
    spark: SparkSession,
    place: AppHome,
    lock: Lock,
    settings: Settings,
    feeds: Mapping[str, Path],
    changelog: bool,
) -> Handle:
    fed = {**_row_directories(spec, place), **feeds}
    stored = place.read_plan()
    compiled = compile_app(spark, spec, fed)
    for one in compiled:
        fits.check(spec.name, stored, one, place.path)
    _write_rows(spec, place)
    partitions = {c.spec.name: _partitions(spark, c, stored) for c in compiled}
    store = open_store(place.views, read_only=False) if settings.views == "sqlite" else NoViews()
    handle = Handle(spec, spark, place, lock, store)
    try:
        schemas = {c.spec.name: _schema(c) for c in compiled}
        for schema in schemas.values():
            store.create(schema)
        place.write_plan(_merged(stored, fits.plan_of(spec, compiled, partitions)))
        for one in compiled:
            name = one.spec.name
            hook = BatchHook(
                one.spec,
                place.table(name),
                store,
                schemas[name],
                views=settings.views != "none",
                changelog=changelog,
            )
            handle.hooks[name] = hook
            handle.queries[name] = _query(spark, spec, one, hook, partitions[name])
    except BaseException:
        handle.stop()
        raise
    return handle


def _merged(stored: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Tables that the app no longer has keep their entry: their state is still there."""
    return {**new, "tables": {**(stored or {}).get("tables", {}), **new["tables"]}}


def _row_directories(spec: AppSpec, place: AppHome) -> dict[str, Path]:
    """Where streams of kf.rows read from."""
    found = {s.name: place.stream(s.name) for s in spec.streams if s.connector.kind == "rows"}
    for directory in found.values():
        directory.mkdir(parents=True, exist_ok=True)
    return found


def _write_rows(spec: AppSpec, place: AppHome) -> None:
    """Rows given in the declaration, as files that streams can read; named by content, so written once."""
    for stream in spec.streams:
        if stream.connector.kind == "rows":
            lines = encode(stream.connector.rows or ())
            name = hashlib.sha256(lines.encode()).hexdigest()[:16]
            put(place.stream(stream.name), name, lines)


def _partitions(spark: SparkSession, compiled: Compiled, stored: dict[str, Any] | None) -> int:
    known = ((stored or {}).get("tables") or {}).get(compiled.spec.name)
    if known is not None:
        return int(known["partitions"])
    return compiled.spec.partitions or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _schema(compiled: Compiled) -> ViewSchema:
    fields = [{"name": n, "type": json.loads(t)} for n, t in (*compiled.keys, *compiled.columns)]
    return ViewSchema.from_spark(
        compiled.spec.name, len(compiled.keys), {"fields": fields}, compiled.spec.help
    )


def _query(
    spark: SparkSession, spec: AppSpec, compiled: Compiled, hook: BatchHook, partitions: int
) -> StreamingQuery:
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        # Without event time nothing is due while nothing arrives, and Spark would run empty batches for ever.
        "spark.sql.streaming.noDataMicroBatches.enabled": str(compiled.event_time).lower(),
    }
    if spec.snapshot_every is not None:
        settings["spark.sql.streaming.stateStore.minDeltasForSnapshot"] = str(spec.snapshot_every)
    writer = (
        compiled.changes.writeStream.foreachBatch(hook)
        .queryName(f"{spec.name}.{compiled.spec.name}")
        .outputMode("append")
        .option("checkpointLocation", hook.home.checkpoint.as_uri())
    )
    if spec.every_ms:
        writer = writer.trigger(processingTime=f"{spec.every_ms} milliseconds")
    with _STARTING:
        before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            return writer.start()
        finally:
            for key, old in before.items():
                spark.conf.unset(key) if old is None else spark.conf.set(key, old)


class Handle:
    """A running app: read its tables, see how it is, stop it."""

    def __init__(
        self, spec: AppSpec, spark: SparkSession, home: AppHome, lock: Lock, store: ViewStore
    ) -> None:
        self.spec, self.spark, self.home, self.store = spec, spark, home, store
        self.queries: dict[str, StreamingQuery] = {}
        self.hooks: dict[str, BatchHook] = {}
        self._lock: Lock | None = lock

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def table(self, name: str) -> LiveTable:
        """The read side of a table."""
        names = [t.name for t in self.spec.tables]
        if name not in names:
            hint = did_you_mean(name, names, f"one of {', '.join(names)}")
            raise QueryError(
                f"no table {name} in app {self.spec.name}", reason="not_found", given=name, hint=hint
            )
        return LiveTable(self.store, name, self.spark)

    def rejected(self, name: str) -> list[dict[str, Any]]:
        """Rows of a stream or table that could not be used, with reason and raw text."""
        tables = tables_of(self.spec, name)
        found = [aside.read_rejected(self.home.table(t)) for t in tables]
        return found[0] if name in (t.name for t in self.spec.tables) else aside.of_stream(found)

    def drain(self) -> None:
        """Processes all input that is there now, then returns."""
        for name, query in self.queries.items():
            try:
                query.processAllAvailable()
            except Exception:
                self._raise_failure()
                if query.isActive:
                    raise
                raise failed(self.spec.name, name, self.hooks[name].last, "the query was stopped") from None

    def wait(self, seconds: float | None = None, stopping: threading.Event | None = None) -> None:
        """Returns when the time is over or a stop is asked for; a query that fails raises `QueryFailed`."""
        stopping = stopping or threading.Event()

        def over() -> bool:
            self._raise_failure()
            return stopping.is_set() or not any(q.isActive for q in self.queries.values())

        wait_until(over, float("inf") if seconds is None else seconds, pause=0.1)

    def _raise_failure(self) -> None:
        for name, query in self.queries.items():
            error = None if query.isActive else query.exception()
            if error is not None and not isinstance(self.hooks[name].error, Stopping):
                raise failed(self.spec.name, name, self._begun(name), self.hooks[name].error or error)

    def _begun(self, name: str) -> int | None:
        offsets = [int(p.name) for p in (self.hooks[name].home.checkpoint / "offsets").glob("[0-9]*")]
        return max(offsets, default=None)

    def status(self) -> dict[str, Any]:
        """How each table is: batch, rows per second, watermark, rejected rows."""
        return {
            "app": self.spec.name,
            "home": str(self.home.path),
            "tables": {n: self._status(n) for n in self.queries},
        }

    def _status(self, name: str) -> dict[str, Any]:
        query = self.queries[name]
        progress: dict[str, Any] = dict(query.lastProgress or {})
        position = self.store.position(name)
        return {
            "running": query.isActive,
            "batch": position.batch if position else self.hooks[name].last,
            "watermark": position.watermark if position else None,
            "rows_per_second": progress.get("processedRowsPerSecond"),
            "batch_ms": (progress.get("durationMs") or {}).get("triggerExecution"),
            "rejected": aside.count_rejected(self.home.table(name)),
        }

    def stop(self, seconds: float = 60.0) -> None:
        """Lets the batch under way finish, then stops every query and lets go of the home."""
        for hook in self.hooks.values():
            hook.stopping.set()
        for name, query in self.queries.items():
            hook = self.hooks[name]
            hook.idle.wait(seconds)
            wait_until(lambda q=query, h=hook: not q.isActive or _committed(q, h), seconds)
            query.stop()
        self.store.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _committed(query: StreamingQuery, hook: BatchHook) -> bool:
    """Whether Spark has committed the batch that the hook finished last."""
    return hook.last is None or (hook.home.checkpoint / "commits" / str(hook.last)).exists()


def tables_of(spec: AppSpec, name: str) -> list[str]:
    """The tables that `name` means: itself, or all that read the stream of that name."""
    own = [t.name for t in spec.tables if t.name == name]
    fed = [t.name for t in spec.tables if name in (s.name for s in nodes.sources(t.input))]
    if not own and not fed and name not in (s.name for s in spec.streams):
        names = [t.name for t in spec.tables] + [s.name for s in spec.streams]
        hint = did_you_mean(name, names, f"one of {', '.join(names)}")
        raise QueryError(
            f"no stream or table {name} in app {spec.name}", reason="not_found", given=name, hint=hint
        )
    return own or fed
