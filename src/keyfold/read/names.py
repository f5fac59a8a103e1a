"""The names that an app has, and what a given name means; in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import QueryError, choice, did_you_mean


@dataclass(frozen=True)
class Names:
    """The tables of an app, each with the streams that it reads, and its streams.

    A stream that no table reads has no rejected rows, but is a valid name.
    """

    app: str
    tables: Mapping[str, Sequence[str]]
    streams: Sequence[str]

    def table(self, name: str) -> str | None:
        """The table of that name."""
        return _same(name, self.tables)

    def stream(self, name: str) -> str | None:
        """The stream of that name, also one that the app no longer declares and a table has read."""
        return _same(name, self.streams) or (name if self.readers(name) else None)

    def readers(self, stream: str) -> list[str]:
        """The tables that read a stream."""
        return [table for table, read in self.tables.items() if _same(stream, read) is not None]

    def unknown_error(self, name: str, given: str) -> QueryError:
        """The error of a name that is neither a stream's nor a table's."""
        names = [*self.tables, *self.streams]
        hint = did_you_mean(name, names, choice(names))
        what = f"no stream or table {name} in app {self.app}"
        return QueryError(what, reason="not_found", given=given, hint=hint)

    def table_with_late_rows(self, name: str) -> str:
        """The table of that name; late rows are kept per table, so that a stream has none."""
        if (table := self.table(name)) is not None:
            return table
        if _same(name, self.streams) is not None:
            readers = self.readers(name)
            hint = f"a table that reads it: {', '.join(readers)}" if readers else "no table reads this stream"
            what = f"{name} is a stream, and late rows are kept per table"
            raise QueryError(what, where=self.app, given=name, hint=hint)
        hint_ = did_you_mean(name, self.tables, choice(self.tables))
        raise QueryError(f"no table {name} in app {self.app}", reason="not_found", given=name, hint=hint_)


def stored_names(app: str, stored: StoredApp) -> Names:
    """The names that the last start of an app recorded: tables that have run, and declared streams."""
    read = {name: table.streams for name, table in stored.tables.items()}
    return Names(app, read, list(stored.declared_streams))


def _same(name: str, known: Sequence[str] | Mapping[str, object]) -> str | None:
    return next((one for one in known if one.lower() == name.lower()), None)
