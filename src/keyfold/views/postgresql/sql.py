"""The statements that read a view, and those that write one by way of a staging table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from keyfold.views.contract import OrderBy, Where
from keyfold.views.postgresql.conditions import codec_in, name_of, order_sql, where_sql
from keyfold.views.postgresql.names import identifier, quoted
from keyfold.views.query import filters
from keyfold.views.query.filters import Filter, Not
from keyfold.views.schema import AT, BATCH, Column, ViewSchema

# What a staged change has beside the columns of the view: its place among all, and whether it deletes.
_STAGED: Final = ("place", "gone")


@dataclass(frozen=True)
class Selection:
    """A statement that reads rows, its parameters and the columns it returns."""

    sql: str
    params: Sequence[Any]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ViewTable:
    """A view's table in the schema of its app."""

    namespace: str
    schema: ViewSchema

    @property
    def relation(self) -> str:
        """The table's name, without its schema."""
        return identifier(self.schema.table)

    @property
    def name(self) -> str:
        """The table, quoted."""
        return quoted(self.namespace, self.relation)

    # Reading

    def rows(
        self, where: Where, order_by: OrderBy, limit: int | None, columns: Sequence[str] | None
    ) -> Selection:
        """The statement of a scan; wrong arguments are a `QueryError` bad_request."""
        schema = self.schema
        chosen = schema.all if columns is None else tuple(filters.column_of(name, schema) for name in columns)
        condition, params = where_sql(where, schema)
        sql = f"{self._select(chosen)} WHERE {condition} ORDER BY {order_sql(order_by, schema)}"
        if limit is not None:
            sql += " LIMIT %s::bigint"
            params.append(filters.checked_limit(limit, schema))
        return Selection(sql, params, chosen)

    def row(self, key: Sequence[Any]) -> Selection:
        """The statement that reads the row of a key."""
        parts = zip(self.schema.keys, filters.checked_key(key, self.schema), strict=True)
        params = [codec_in(column, self.schema).parameter(part) for column, part in parts]
        equal = (f"{name_of(k)} = %s::{codec_in(k, self.schema).name}" for k in self.schema.keys)
        return Selection(
            f"{self._select(self.schema.all)} WHERE {' AND '.join(equal)}", params, self.schema.all
        )

    def in_order_of_batches(self) -> Selection:
        """The statement that reads all rows, those of one batch together."""
        sql = f"{self._select(self.schema.all)} ORDER BY {name_of(BATCH)}, {name_of(AT)}"
        return Selection(sql, (), self.schema.all)

    def count(self, where: Where) -> tuple[str, list[Any]]:
        """The statement that counts rows, and its parameters."""
        condition, params = where_sql(where, self.schema)
        return f"SELECT count(*) FROM {self.name} WHERE {condition}", params

    def _select(self, columns: Sequence[Column]) -> str:
        return f"SELECT {', '.join(map(name_of, columns))} FROM {self.name}"

    # Writing

    @cached_property
    def declaration(self) -> str:
        """The statement that creates the table; pages have room for changed rows, which spares the index."""
        lines = [f"{name_of(c)} {codec_in(c, self.schema).declared}" for c in self.schema.all]
        given = len(self.schema.keys) + len(self.schema.columns)
        # Those of keyfold itself are never null; keys are not, as part of a primary key.
        lines[given:] = [f"{line} NOT NULL" for line in lines[given:]]
        keys = ", ".join(map(name_of, self.schema.keys))
        return (
            f"CREATE TABLE {self.name} (\n    "
            + ",\n    ".join([*lines, f"PRIMARY KEY ({keys})"])
            + "\n) WITH (fillfactor = 80)"
        )

    @cached_property
    def staging(self) -> str:
        """The temporary table of changes, quoted: one of the session, empty after each transaction."""
        shape = hashlib.sha256(self.declaration.encode()).hexdigest()[:16]
        return quoted("pg_temp", f"keyfold_{shape}")

    @cached_property
    def create_staging(self) -> str:
        """The statement that creates the staging table, unless the session has it."""
        columns = [
            f"{self._staged(i)} {codec_in(c, self.schema).declared}" for i, c in enumerate(self.schema.all)
        ]
        return (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {self.staging} "
            f"(place bigint, gone boolean, {', '.join(columns)}) ON COMMIT DELETE ROWS"
        )

    @cached_property
    def copy(self) -> str:
        """The statement that copies changes into the staging table."""
        names = (*_STAGED, *(self._staged(i) for i in range(len(self.schema.all))))
        return f"COPY {self.staging} ({', '.join(names)}) FROM STDIN (FORMAT csv)"

    @cached_property
    def delete_staged(self) -> str:
        """The statement that deletes rows whose last change says so."""
        same = (f"t.{name_of(k)} = s.{self._staged(i)}" for i, k in enumerate(self.schema.keys))
        return (
            f"DELETE FROM {self.name} t USING ({self._last(self._staged_keys)}) s "
            f"WHERE s.gone AND {' AND '.join(same)}"
        )

    @cached_property
    def upsert_staged(self) -> str:
        """The statement that writes the other rows, in the order of their keys: that of the index."""
        every = [self._staged(i) for i in range(len(self.schema.all))]
        set_ = (f"{name_of(c)} = EXCLUDED.{name_of(c)}" for c in (*self.schema.columns, BATCH, AT))
        return (
            f"INSERT INTO {self.name} ({', '.join(map(name_of, self.schema.all))}) "
            f"SELECT {', '.join(every)} FROM ({self._last(every)}) s WHERE NOT gone "
            f"ON CONFLICT ({', '.join(map(name_of, self.schema.keys))}) DO UPDATE SET {', '.join(set_)}"
        )

    def delete_rows(self, but: Filter | None) -> tuple[str, list[Any]]:
        """The statement that deletes all rows but those that match, and its parameters."""
        if but is None:
            return f"DELETE FROM {self.name}", []
        condition, params = where_sql(Not(but), self.schema)
        return f"DELETE FROM {self.name} WHERE {condition}", params

    def differences(self, where: Filter | None) -> tuple[str, list[Any]]:
        """The statement that compares the rows with staged ones: keys, and on which sides they are."""
        columns = (*self.schema.keys, *self.schema.columns)
        condition, params = where_sql(where, self.schema)
        # json has no equality.
        as_is = [
            f"{name_of(c)}{'::text' * (codec_in(c, self.schema).name == 'json')} AS {self._staged(i)}"
            for i, c in enumerate(columns)
        ]
        given = [self._staged(i) for i in range(len(columns))]
        renamed = (f"{one} AS {name_of(c)}" for one, c in zip(given, columns, strict=True))
        staged = f"SELECT {', '.join(renamed)} FROM ({self._last(given)}) s WHERE NOT gone"
        keys = ", ".join(self._staged_keys)
        return (
            f"WITH here AS (SELECT {', '.join(as_is)} FROM {self.name} WHERE {condition}), "
            f"there AS (SELECT {', '.join(as_is)} FROM ({staged}) s WHERE {condition}), "
            "missing AS (SELECT * FROM there EXCEPT SELECT * FROM here), "
            "extra AS (SELECT * FROM here EXCEPT SELECT * FROM there) "
            f"SELECT {keys}, min(side), max(side) FROM (SELECT {keys}, 0 AS side FROM missing "
            f"UNION ALL SELECT {keys}, 1 AS side FROM extra) sides GROUP BY {keys} ORDER BY {keys} "
            "LIMIT %s::bigint",
            [*params, *params],
        )

    @property
    def _staged_keys(self) -> list[str]:
        return [self._staged(i) for i in range(len(self.schema.keys))]

    def _last(self, columns: Sequence[str]) -> str:
        """The last change of each key, by key."""
        keys = ", ".join(self._staged_keys)
        return (
            f"SELECT DISTINCT ON ({keys}) {', '.join(columns)}, gone FROM {self.staging} "
            f"ORDER BY {keys}, place DESC"
        )

    @staticmethod
    def _staged(index: int) -> str:
        return f"c{index}"
