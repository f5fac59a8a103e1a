"""The schema of a view: key columns, other columns, and the columns that every view has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from keyfold.errors import BadName, choice, did_you_mean
from keyfold.views import arrow as pa
from keyfold.views.types.numbers import Exact, Integer
from keyfold.views.types.parse import LONG, TIMESTAMP, DataType, parse
from keyfold.views.types.scalars import Floating


@dataclass(frozen=True)
class Column:
    """A column of a view."""

    name: str
    type: DataType

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return isinstance(self.type, Integer | Exact | Floating)


BATCH: Final = Column("_batch", LONG)
AT: Final = Column("_at", TIMESTAMP)
_OWN: Final = ("_op", BATCH.name, AT.name)


@dataclass(frozen=True)
class ViewSchema:
    """The columns of a view, keys first; every view also has `_batch` and `_at`, which come last."""

    table: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    help: str = ""
    order: tuple[str, ...] = ()
    """The columns that order a read without `order_by`; then by key."""
    private: tuple[str, ...] = ()
    """The columns that readers with a token do not see; none of the key."""

    def __post_init__(self) -> None:
        if not self.keys:
            raise BadName("a view needs at least one key column", where=self.table)
        seen: set[str] = set()
        for column in (*self.keys, *self.columns):
            # Names are case-insensitive in Spark and in SQLite.
            name = column.name.lower()
            if name in _OWN or name in seen or "\0" in name or not name:
                why = "is reserved" if name in _OWN else "is used twice" if name in seen else "is not allowed"
                raise BadName(f"column name {column.name!r} {why}", where=self.table, hint="another name")
            seen.add(name)
        names = {column.name for column in self.columns}
        for private in self.private:
            if private not in names:
                hint = did_you_mean(private, names, choice(sorted(names)) if names else None)
                raise BadName(f"no column {private!r} to be private", where=self.table, hint=hint)

    @property
    def all(self) -> tuple[Column, ...]:
        """Every column that a reader sees, in order."""
        return (*self.keys, *self.columns, BATCH, AT)

    @property
    def arrow(self) -> pa.Schema:
        """The schema of the record batches that carry changes."""
        fields = [(column.name, column.type.arrow) for column in (*self.keys, *self.columns)]
        return pa.schema([("_op", pa.string()), *fields])

    def to_json(self) -> str:
        """The schema as JSON text, to be stored with the rows."""
        keys, columns = (
            [{"name": column.name, "type": column.type.to_json()} for column in group]
            for group in (self.keys, self.columns)
        )
        fields = {
            "keys": keys,
            "columns": columns,
            "help": self.help,
            "order": self.order,
            "private": self.private,
        }
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, table: str, text: str) -> ViewSchema:
        """The schema of a text made by `to_json`."""
        data = json.loads(text)
        keys, columns = (
            tuple(Column(item["name"], parse(item["type"])) for item in data[group])
            for group in ("keys", "columns")
        )
        order, private = tuple(data.get("order", ())), tuple(data.get("private", ()))
        return cls(table, keys, columns, data["help"], order, private)

    @classmethod
    def from_spark(
        cls, table: str, keys: int, schema: Any, help: str = "", private: Sequence[str] = ()
    ) -> ViewSchema:
        """From Spark's `df.schema.json()`, as text or parsed; the first `keys` columns are the key."""
        fields = (json.loads(schema) if isinstance(schema, str) else schema)["fields"]
        columns = tuple(Column(field["name"], parse(field["type"])) for field in fields)
        names = {column.name.lower(): column.name for column in columns}
        own = tuple(names.get(name.lower(), name) for name in private)
        return cls(table, columns[:keys], columns[keys:], help, private=own)

    def difference(self, other: ViewSchema) -> str | None:
        """The first column in which the other schema differs, as text; None if the columns are equal."""
        for what, mine, others in (("key", self.keys, other.keys), ("column", self.columns, other.columns)):
            for number, (old, new) in enumerate(zip_longest(mine, others), 1):
                if old != new:
                    return f"{what} {number}: {_text(old)} in the view, {_text(new)} in the table"
        return None


def _text(column: Column | None) -> str:
    return "nothing" if column is None else f"{column.name} {column.type}"
