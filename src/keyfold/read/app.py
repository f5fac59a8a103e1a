"""`AppReader`: reads one app of a home, running or not."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import contents
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import HomeUnusable, QueryError, choice, did_you_mean
from keyfold.read import batch_times, patterns, positions, rejections, side_outputs, state_sizes, wanted
from keyfold.read import batches as log_batches
from keyfold.read import history as key_history
from keyfold.read import late as late_rows
from keyfold.read import status as app_status
from keyfold.read import topology as app_topology
from keyfold.read import trends as app_trends
from keyfold.read.advice import health as app_health
from keyfold.read.advice.facts import AppHealth, Facts
from keyfold.read.batch_times import BatchTime
from keyfold.read.batches import LogBatches
from keyfold.read.changes import TableChanges
from keyfold.read.explain import explanation
from keyfold.read.explain.explanation import Explanation
from keyfold.read.history import Change, Since
from keyfold.read.late import LateBatch
from keyfold.read.names import Names, stored_names
from keyfold.read.past import PastReader
from keyfold.read.patterns import Pattern
from keyfold.read.positions import Follower, Progress
from keyfold.read.rejections import Rejections
from keyfold.read.side_rows import DuplicateRow, LateRow, RejectedRow
from keyfold.read.state_sizes import StateSizes
from keyfold.read.status import AppStatus
from keyfold.read.topology import Topology
from keyfold.read.trends import Trends
from keyfold.views.contract import Position, ViewStore
from keyfold.views.reader import TableReader, Wait, seconds

_A_DAY: Final = timedelta(days=1)


class AppReader:
    """Reads one app of a home. Tables and streams are found by their names in any case.

    Views and status are local files. Logs, and what is read from them, need the app's storage: those of a
    home elsewhere are a `HomeUnusable` without it.
    """

    def __init__(self, home: AppHome, names: Names | None = None) -> None:
        """`names`: those of a running app, in place of what its last start recorded."""
        self.home, self._names = home, names
        self._opening = threading.Lock()
        self._views: ViewStore | None = None

    @property
    def name(self) -> str:
        """The app's name."""
        return self.home.path.name

    @property
    def views(self) -> ViewStore:
        """The views of all tables, opened once."""
        if (found := self._views) is not None:
            return found
        with self._opening:
            if self._views is None:
                self._views = self.home.views.open(read_only=True)
            return self._views

    def close(self) -> None:
        """Closes the views, if they are open."""
        with self._opening:
            views, self._views = self._views, None
        if views is not None:
            views.close()

    # What there is

    @property
    def stored(self) -> StoredApp:
        """What the last start recorded in app.json."""
        return self.home.read_plan()

    @property
    def names(self) -> Names:
        """The tables that have run, with the streams that they read, and the declared streams."""
        return self._names or stored_names(self.name, self.stored)

    def known_since(self, table: str) -> Mapping[str, KnownSince]:
        """Since when columns that a migration added cover rows; others cover all."""
        return self.stored.table(table).since

    def status(self, *, views: bool = True) -> AppStatus:
        """The last status that the app published, and whether it still holds.

        `views`: whether views are read of tables that have none, such as of an app that was never up.
        """
        return app_status.status(self.home, self.views if views else None)

    def topology(self) -> Topology:
        """The streams, lookups, tables and sinks of the last start, and which reads which."""
        return app_topology.of(self.name, self.stored)

    def trends(self, last: timedelta | None = None) -> Trends:
        """The figures of the tables over time, as runs have recorded them; `last`: only the last part."""
        return app_trends.of(self.name, self.home, last)

    def health(self) -> AppHealth:
        """What an operator should look at, in words and with commands, worst first."""
        return self._health(self.stored)

    def _health(self, stored: StoredApp) -> AppHealth:
        """The advice that follows from what this reader sees, and from what the last start recorded."""
        status = self.status()
        followers: dict[str, Sequence[Follower]] = {}
        saved: list[Savepoint] | None = None
        with suppress(HomeUnusable):  # of a home elsewhere, only status and views are here
            for name in status.tables:
                with suppress(QueryError):  # it has no view yet
                    followers[name] = self.progress(name).followers
            saved = self.savepoints()
        facts = Facts(status, stored, self.trends(_A_DAY), saved, followers, datetime.now(UTC))
        return app_health.health(facts)

    def savepoints(self) -> list[Savepoint]:
        """The savepoints that are complete, oldest first."""
        return Savepoints(self.home).all()

    def savepoint(self, name: str) -> Savepoint:
        """A savepoint by its name."""
        return Savepoints(self.home).find(name)

    # Tables

    def table(self, name: str) -> TableReader:
        """The rows of a table; its methods are a `QueryError` not_found if there is no view of that name."""
        return TableReader(self.views, name)

    def table_name(self, name: str) -> str:
        """The name of a table as it is declared, or was; an unknown one is a `QueryError` not_found."""
        names = self.names
        if (table := names.table(name)) is not None:
            return table
        hint = did_you_mean(name, names.tables, choice(names.tables))
        raise QueryError(f"no table {name} in app {self.name}", reason="not_found", given=name, hint=hint)

    def progress(self, table: str) -> Progress:
        """How far a table is, and how far its views, its sinks and the tables that read it are."""
        return positions.progress(self.home, self.table_name(table))

    def wait(self, table: str, after: str, wait: Wait = None) -> Position | None:
        """Waits until the view of a table shows what is at a position, and returns where the view then is.

        `after` is the position of a message, as Kafka tells its producer: `orders/3@1234`, of topic,
        partition and offset; or one of a server's answers or change feeds; several with commas. It waits for
        at most `wait`, by default not at all; then it is a `QueryError` behind_bound.
        """
        name = self.table_name(table)
        return wanted.wait(self.home, self.views, name, wanted.parse(after), seconds(wait, name))

    def behind(self, table: str, at: Position | None, positions: wanted.Wanted) -> QueryError | None:
        """Why the view of a table, which is at a position, does not show others; None if it does."""
        return wanted.behind(self.home, table, at, positions)

    # Rows that were not folded

    def rejected(self, name: str) -> list[RejectedRow]:
        """What a table or stream has rejected; a row that several tables of a stream reject once."""
        return rejections.rows_of(self.home, self.names, name)

    def rejections(self, name: str, given: str | None = None) -> Rejections:
        """The same, with how many more were counted; `given`: the name in errors."""
        return rejections.of(self.home, name, given or name)

    def late(self, table: str, batches: Collection[int] | None = None) -> Iterator[LateRow]:
        """The late rows of a table, of all batches or some, oldest batch first."""
        return late_rows.rows(self.home.table(self.table_with_late_rows(table)), batches)

    def late_batches(self, table: str) -> Iterator[LateBatch]:
        """The batches of a table that have late rows, and which were replayed."""
        return late_rows.batches_of(self.home.table(self.table_with_late_rows(table)))

    def table_with_late_rows(self, name: str) -> str:
        """The table of that name; of a stream, an error that names the tables that read it."""
        return self.names.table_with_late_rows(name)

    def duplicates(self, table: str) -> list[DuplicateRow]:
        """The duplicates of a table that `distinct(record_duplicates=True)` recorded, oldest batch first."""
        return side_outputs.duplicates(TableLog(self.home.table(self.table_name(table)).log_files))

    def pattern(self, table: str) -> Pattern:
        """The pattern of a table as its last start declared it; an error if it has none."""
        return patterns.of(self.stored, self.table_name(table), self.name)

    def state_sizes(self, table: str) -> StateSizes:
        """The size of a table's state by partition, and what savepoints have of it, without reading it."""
        return state_sizes.of(self.home, self.table_name(table), self.savepoints())

    # Logs

    def batches(self, name: str, newest: int | None = None) -> LogBatches:
        """The batches in the log of a table or stream: all, or the newest ones."""
        return log_batches.of(self.log(name), newest)

    def batch_times(self, name: str) -> list[BatchTime]:
        """Where the time of the newest batches of a table or stream went, oldest first."""
        return batch_times.read(self.home).get(name, [])

    def history(self, table: str, key: Sequence[str]) -> Iterator[Change]:
        """The changes of a key that the log still has, or of all keys that begin with these values."""
        return key_history.history(self._changes(table), key)

    def explain(self, table: str, key: Sequence[str], batch: int | None = None) -> Explanation:
        """A change of a key, its newest one or that of a batch, and what that batch read of each source.

        The rows of the key are there where a source has a log that still has them.
        """
        return explanation.explain(self.home, self.with_files(table), key, batch)

    def history_reaches(self, table: str) -> Since:
        """Since when the log of a table has all changes."""
        return key_history.since(self._changes(table))

    def past(self, table: str) -> PastReader:
        """The rows of a table as they were after earlier batches."""
        name = self.with_files(table)
        began_with = self.stored.table(name).began_with
        return PastReader(f"{self.name}.{name}", self.log(name), self.views, name, began_with)

    def changes(self, table: str) -> TableChanges:
        """The changes of a table that its log has, from a position on; keys are those of its view."""
        name = self.with_files(table)
        keys = [column.name for column in self.table(name).schema.keys]
        return TableChanges(self.home, self.log(name), f"{self.name}.{name}", keys)

    def log(self, name: str, given: str | None = None) -> TableLog:
        """The log of a table, or of a stream that has one; `given`: the name in errors."""
        return TableLog(contents.home_of(self.home, self.with_files(name, given)).log_files)

    def with_files(self, name: str, given: str | None = None) -> str:
        """The table that has files in the home, also one that the app no longer declares; or a stream's log.

        `given`: the name in errors.
        """
        known = {one.lower(): one for one in (*contents.streams(self.home), *contents.tables(self.home))}
        if name.lower() not in known:
            self._refuse_stream_without_log(name, given or name)
            hint = did_you_mean(name, known.values(), choice(known.values()) if known else None)
            raise QueryError(
                f"no table {name} in app {self.name}", reason="not_found", given=given or name, hint=hint
            )
        return known[name.lower()]

    def _refuse_stream_without_log(self, name: str, given: str) -> None:
        """Says of a stream without a log that its tables read its source themselves."""
        names = stored_names(self.name, self.stored)
        stream = next((one for one in names.streams if one.lower() == name.lower()), None)
        if stream is None:
            return
        reading = [f"{self.name}.{table}" for table in names.readers(stream)]
        raise QueryError(
            f"stream {stream} has no log of its own: its tables read its source themselves",
            reason="not_found",
            given=given,
            hint=f"a table: {', '.join(reading)}" if reading else "history= or shared=True of the stream",
        )

    def _changes(self, table: str) -> TableLog:
        return TableLog(self.home.table(self.with_files(table)).log_files)
