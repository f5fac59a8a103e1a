"""`GrantedApp`: an app without tables out of scope, private columns, raw rows, and texts that quote them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NoReturn

from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.read import AppReader
from keyfold.read.advice.facts import AppHealth
from keyfold.read.batch_times import BatchTime
from keyfold.read.batches import LogBatches
from keyfold.read.changes import TableChanges
from keyfold.read.explain.explanation import Explanation
from keyfold.read.history import Change, Since
from keyfold.read.late import LateBatch
from keyfold.read.names import Names
from keyfold.read.past import PastReader
from keyfold.read.patterns import Pattern
from keyfold.read.positions import Progress
from keyfold.read.rejections import Rejections
from keyfold.read.side_rows import DuplicateRow, LateRow, RejectedRow
from keyfold.read.state_sizes import StateSizes
from keyfold.read.status import AppStatus
from keyfold.read.topology import Topology
from keyfold.read.trends import Trends
from keyfold.read.wanted import TablePosition, Wanted
from keyfold.server.auth.access import Access
from keyfold.server.granted import parts
from keyfold.server.granted.views import GrantedViews
from keyfold.views.contract import Position
from keyfold.views.reader import TableReader, Wait

_NOT_READ: Final = "the position is not one of what the table reads"
_WHY_NOT: Final = {
    "behind_bound": "the view does not show this position yet",
    "gone": "the position is one of before a reset or restore",
}


class GrantedApp(AppReader):
    """Reads another app. Each public name of `AppReader` is here: a test finds one that is only inherited."""

    def __init__(self, app: AppReader, access: Access) -> None:
        # Not that of the base class: what it keeps is not for this reader.
        self.whole, self._access = app, access
        self._granted: GrantedViews | None = None
        self._declared: tuple[object, Mapping[str, frozenset[str]]] | None = None

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def views(self) -> GrantedViews:
        store, known = self.whole.views, self._granted
        if known is None or known.store is not store:
            known = self._granted = GrantedViews(store, self.name, self._access, self._declared_private)
        return known

    def close(self) -> None:
        """Nothing: the app is that of others as well."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise QueryError("the token may not read this", reason="forbidden", where=self.name)

    # All that is recorded of an app, and its files as they are.
    home: Any = property(_refuse)
    stored: Any = property(_refuse)
    savepoint: Any = _refuse
    log: Any = _refuse

    @property
    def names(self) -> Names:
        found = self.whole.names
        tables = {name: read for name, read in found.tables.items() if self._reads(name)}
        streams = {stream.lower() for read in tables.values() for stream in read}
        whole = self._access.tables is None
        return Names(found.app, tables, [one for one in found.streams if whole or one.lower() in streams])

    def known_since(self, table: str) -> Mapping[str, Any]:
        hidden = self._hidden(self.table_name(table))
        found = self.whole.known_since(self.table_name(table))
        return {name: since for name, since in found.items() if name not in hidden}

    def status(self, *, views: bool = True) -> AppStatus:
        found = self.whole.status(views=views)
        # Without views nothing is known of private columns, and so of when columns were added.
        hidden = self._hidden if views else None
        return parts.status(found, self._access, self.names, self.topology(), hidden)

    def trends(self, last: timedelta | None = None) -> Trends:
        found = self.whole.trends(last)
        return replace(found, tables={name: one for name, one in found.tables.items() if self._reads(name)})

    def health(self) -> AppHealth:
        return self._health(self.whole.stored)

    def topology(self) -> Topology:
        return parts.topology(self.whole.topology(), self._access)

    def savepoints(self) -> list[Any]:
        return parts.savepoints(self.whole.savepoints(), self._access)

    def table(self, name: str) -> TableReader:
        return TableReader(self.views, name)

    def table_name(self, name: str) -> str:
        names = self.names
        if (table := names.table(name)) is not None:
            return table
        raise self._unknown(name, list(names.tables))

    def progress(self, table: str) -> Progress:
        found = self.whole.progress(self.table_name(table))
        followers = (one for one in found.followers if one.kind != "table" or self._reads(one.name))
        return replace(found, followers=tuple(followers))

    def wait(self, table: str, after: str, wait: Wait = None) -> Position | None:
        """Nothing waits by it over HTTP: see `behind`."""
        raise self._refuse()

    def behind(self, table: str, at: Position | None, positions: Wanted) -> QueryError | None:
        if not self._reads(table):
            raise self._unknown(table, list(self.names.tables))
        for one in positions:
            if isinstance(one, TablePosition) and not self._access.reads(one.app, one.table):
                raise QueryError(_NOT_READ, where=f"{self.name}.{table}", given=f"after={one}")
        try:
            return self.whole.behind(table, at, positions)
        except QueryError as error:
            # Its text and hint may name the tables that this one reads.
            what, where = error.what, error.where
            if self._access.tables is not None:
                what, where = _WHY_NOT.get(error.reason, _NOT_READ), f"{self.name}.{table}"
            raise QueryError(what, reason=error.reason, where=where, given=error.given) from None

    def rejected(self, name: str) -> list[RejectedRow]:
        return self.rejections(name).rows

    def rejections(self, name: str, given: str | None = None) -> Rejections:
        names = self.names
        if names.table(name) is None:
            # A stream's are also those of tables that are out of scope.
            raise self._unknown(given or name, list(names.tables))
        return parts.rejections(self.whole.rejections(name, given), self._access)

    def late(self, table: str, batches: Collection[int] | None = None) -> Iterator[LateRow]:
        found = self.whole.late(self.table_name(table), batches)
        return (parts.late(row, self._access) for row in found)

    def late_batches(self, table: str) -> Iterator[LateBatch]:
        return self.whole.late_batches(self.table_name(table))

    def table_with_late_rows(self, name: str) -> str:
        return self.names.table_with_late_rows(name)

    def duplicates(self, table: str) -> list[DuplicateRow]:
        found = self.whole.duplicates(self.table_name(table))
        return [parts.duplicate(row, self._access) for row in found]

    def pattern(self, table: str) -> Pattern:
        name = self.table_name(table)
        try:
            found = self.whole.pattern(name)
        except QueryError as error:
            # Its hint names tables that have one.
            raise QueryError(error.what, reason=error.reason, given=error.given) from None
        hidden = self._hidden(name)
        return replace(found, returns={one: text for one, text in found.returns.items() if one not in hidden})

    def state_sizes(self, table: str) -> StateSizes:
        return self.whole.state_sizes(self.table_name(table))

    def batch_times(self, name: str) -> list[BatchTime]:
        return self.whole.batch_times(self.with_files(name))

    def past(self, table: str) -> PastReader:
        name = self.with_files(table)
        began_with = self.whole.stored.table(name).began_with
        # Read by the schema that this reader sees.
        return PastReader(f"{self.name}.{name}", self.whole.log(name), self.views, name, began_with)

    def batches(self, name: str, newest: int | None = None) -> LogBatches:
        return self.whole.batches(self.with_files(name), newest)

    def history(self, table: str, key: Sequence[str]) -> Iterator[Change]:
        name = self.with_files(table)
        self._require_key(name, key)
        shown = self._shown(name)
        for change in self.whole.history(name, key):
            yield parts.change(change, shown)

    def explain(self, table: str, key: Sequence[str], batch: int | None = None) -> Explanation:
        name = self.with_files(table)
        self._require_key(name, key)
        found = self.whole.explain(name, key, batch)
        return parts.explanation(found, self.name, self._access, self._shown(name))

    def _require_key(self, table: str, key: Sequence[str]) -> None:
        """Refuses more than a key: the log would compare the rest with other columns, also private ones."""
        keys = self.views.schema(table).keys
        if len(key) > len(keys):
            hint = ", ".join(column.name for column in keys)
            raise QueryError("the key has too many parts", where=table, given="/".join(key), hint=hint)

    def history_reaches(self, table: str) -> Since:
        return self.whole.history_reaches(self.with_files(table))

    def changes(self, table: str) -> TableChanges:
        name = self.with_files(table)
        found = self.whole.changes(name)
        # A feed may be older than the start of the app that made a column private.
        return found if self._access.sees_private else found.of_columns(lambda: self.views.shown(name))

    def with_files(self, name: str, given: str | None = None) -> str:
        """The table of that name; logs of streams are the rows of all tables that read them."""
        if not self._reads(name):
            raise self._unknown(given or name, list(self.names.tables))
        found = self.whole.with_files(name, given)
        if self.whole.names.stream(found) is not None:
            raise self._unknown(given or name, list(self.names.tables))
        return found

    def _reads(self, table: str) -> bool:
        return self._access.reads(self.name, table)

    def _hidden(self, table: str) -> frozenset[str]:
        return self.views.hidden(table)

    def _shown(self, table: str) -> frozenset[str] | None:
        return None if self._access.sees_private else self.views.shown(table)

    def _declared_private(self, table: str) -> frozenset[str]:
        """The private columns of a table as the last start declared it."""
        file = self.whole.home.plan
        try:
            found = file.stat()
        except FileNotFoundError:
            return frozenset()
        known, version = self._declared, (found.st_ino, found.st_mtime_ns, found.st_size)
        if known is None or known[0] != version:
            declared = self.whole.stored.declared_tables
            private = {name: frozenset(one.get("private") or ()) for name, one in declared.items()}
            known = self._declared = version, private
        return known[1].get(table, frozenset())

    def _unknown(self, name: str, known: list[str]) -> QueryError:
        hint = did_you_mean(name, known, choice(known) if known else None)
        what = f"no table {name} in app {self.name}"
        return QueryError(what, reason="not_found", given=name, hint=hint)
