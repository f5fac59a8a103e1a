"""What a type must know: how its columns are kept in SQLite and read back as Python values.

A value has four forms: what Arrow's `to_pylist` gives for the type's `stored` Arrow type; the SQLite value;
the leaf inside the JSON of an array, map or struct; and the Python value that a reader gets.

| Spark | SQLite | Python |
|---|---|---|
| byte, short, integer, long | INTEGER | int |
| float, double | REAL, NaN as TEXT, which sorts above all numbers as in Spark | float |
| decimal up to 18 digits | INTEGER, unscaled | Decimal |
| decimal above | TEXT of fixed width, in the order of the numbers | Decimal |
| boolean | INTEGER | bool |
| string, char, varchar | TEXT | str |
| binary | BLOB | bytes |
| date | INTEGER days | date, or ISO text beyond the years 1 to 9999 |
| timestamp | INTEGER microseconds | datetime in UTC, or ISO text beyond the years 1 to 9999 |
| timestamp_ntz | INTEGER microseconds | datetime without a zone, or ISO text |
| time | INTEGER nanoseconds | time |
| interval day to second | INTEGER microseconds | timedelta |
| interval year to month | INTEGER months | int |
| void | NULL | None |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from keyfold.views import arrow as pa

Sql = int | float | str | bytes | None
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


class DataType(ABC):
    """A Spark type with its codec. `str()` is Spark's short name, `to_json()` the form in a schema's JSON."""

    scalar: ClassVar[bool] = True
    """Whether values can be compared and ordered by a reader."""
    same: ClassVar[bool] = False
    """Whether the SQLite value, when not null, is the Python value."""
    plain: ClassVar[bool] = False
    """Whether the stored value can stand in JSON as it is."""
    arrow_name: ClassVar[str] = ""
    """Arrow's name for what Spark sends, where one name tells it."""
    stored_name: ClassVar[str] = ""
    """Arrow's name for what is stored, if that is another type."""

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def to_json(self) -> Any:
        """The type as Spark spells it in JSON."""

    @property
    def arrow(self) -> pa.DataType:
        """What Spark sends, give or take names and nullability inside."""
        return pa.type_for_alias(self.arrow_name)

    @property
    def stored(self) -> pa.DataType:
        """What Spark's columns are cast to: integers for all points and lengths of time."""
        return pa.type_for_alias(self.stored_name) if self.stored_name else self.arrow

    def encode(self, column: pa.Array) -> list[Sql]:
        """SQLite values of a whole column, whose type is `stored`."""
        values: list[Sql] = column.to_pylist()
        return values

    def decode(self, value: Any) -> Any:
        """The Python value of a SQLite value that is not null."""
        return value

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The stored value of a Python value or text; a ValueError says what a value looks like."""

    def literal(self, value: Any) -> Sql:
        """The SQLite value of a Python value or of text, as in a key: "2026-01-01T00:00:00Z", "true"."""
        sql: Sql = None if value is None else self.read(value)
        return sql

    def bound(self, value: Any) -> tuple[Sql, bool]:
        """For comparing: the largest value of the type not above the literal, and whether they are equal."""
        return self.literal(value), True

    def to_leaf(self, value: Any) -> Any:
        """The JSON form of a stored value that is not null."""
        return value

    def from_leaf(self, leaf: Any) -> Any:
        """The Python value of a JSON form that is not null."""
        return self.decode(leaf)
