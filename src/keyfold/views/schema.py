"""The columns of a view."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import BadName
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
        """Whether its values are numbers."""
        return isinstance(self.type, Integer | Exact | Floating)


BATCH: Final = Column("_batch", LONG)
AT: Final = Column("_at", TIMESTAMP)
_OWN: Final = ("_op", BATCH.name, AT.name)


@dataclass(frozen=True)
class ViewSchema:
    """The columns of a table's view, keys first; `_batch` and `_at` come after them by themselves."""

    table: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    help: str = ""
    order: tuple[str, ...] = ()
    """The columns by which rows are read where no order is asked for; else, and among equals, by key."""

    def __post_init__(self) -> None:
        if not self.keys:
            raise BadName("a view needs at least one key column", where=self.table)
        seen: set[str] = set()
        for column in (*self.keys, *self.columns):
            # Neither Spark nor SQLite tells names apart by case.
            name = column.name.lower()
            if name in _OWN or name in seen or "\0" in name or not name:
                why = (
                    "is keyfold's own"
                    if name in _OWN
                    else "is there twice"
                    if name in seen
                    else "can't be used"
                )
                raise BadName(f"column name {column.name!r} {why}", where=self.table, hint="another name")
            seen.add(name)

    @property
    def all(self) -> tuple[Column, ...]:
        """Every column a reader sees, in order."""
        return (*self.keys, *self.columns, BATCH, AT)

    @property
    def arrow(self) -> pa.Schema:
        """The schema of the record batches that carry changes."""
        fields = [(column.name, column.type.arrow) for column in (*self.keys, *self.columns)]
        return pa.schema([("_op", pa.string()), *fields])

    def to_json(self) -> str:
        """As text, for keeping beside the rows."""
        keys, columns = (
            [{"name": column.name, "type": column.type.to_json()} for column in group]
            for group in (self.keys, self.columns)
        )
        said = {"keys": keys, "columns": columns, "help": self.help, "order": self.order}
        return json.dumps(said, ensure_ascii=False)

    @classmethod
    def from_json(cls, table: str, text: str) -> ViewSchema:
        """From the text that `to_json` gave."""
        data = json.loads(text)
        keys, columns = (
            tuple(Column(item["name"], parse(item["type"])) for item in data[group])
            for group in ("keys", "columns")
        )
        return cls(table, keys, columns, data["help"], tuple(data.get("order", ())))

    @classmethod
    def from_spark(cls, table: str, keys: int, schema: Any, help: str = "") -> ViewSchema:
        """From Spark's `df.schema.json()`, as text or parsed, of the keys (so many) and then the columns."""
        fields = (json.loads(schema) if isinstance(schema, str) else schema)["fields"]
        columns = tuple(Column(field["name"], parse(field["type"])) for field in fields)
        return cls(table, columns[:keys], columns[keys:], help)

    def difference(self, other: ViewSchema) -> str | None:
        """The first column in which the other schema differs, in words; None if rows of both are alike."""
        for what, mine, others in (("key", self.keys, other.keys), ("column", self.columns, other.columns)):
            for place in range(max(len(mine), len(others))):
                old = mine[place] if place < len(mine) else None
                new = others[place] if place < len(others) else None
                if old != new:
                    return f"{what} {place + 1}: {_words(old)} here, {_words(new)} there"
        return None


def _words(column: Column | None) -> str:
    return "nothing" if column is None else f"{column.name} {column.type}"
