"""The base class of all types: Spark's name and JSON form, the Arrow type, and conversion of single values.

Types know Spark, Arrow and Python; how a store lays out a type is that store's codec. A value has three
forms: what Spark sends (`arrow`); the canonical value, which is exact for every value Spark can hold; and the
Python value that a reader gets.

| Spark | canonical value | Python value |
|---|---|---|
| byte, short, integer, long | int | int |
| float, double | float | float |
| decimal | Decimal | Decimal |
| boolean | bool | bool |
| string, char, varchar | str | str |
| binary | bytes | bytes |
| date | int, days since 1970-01-01 | date, or ISO text outside the years 1 to 9999 |
| timestamp | int, microseconds since 1970-01-01 in UTC | datetime in UTC, or ISO text |
| timestamp_ntz | int, microseconds since 1970-01-01 | datetime without a zone, or ISO text |
| time | int, nanoseconds since midnight | time |
| interval day to second | int, microseconds | timedelta |
| interval year to month | int, months | int |
| array | list | list |
| map | list of pairs | dict |
| struct | dict | dict |
| void | None | None |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from keyfold.views import arrow as pa

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


class DataType(ABC):
    """A Spark type. `str()` is Spark's short name, `to_json()` its form in the JSON of a schema."""

    spark_name: ClassVar[str] = ""
    """Spark's short name, for types without parameters."""
    scalar: ClassVar[bool] = True
    """Whether a reader can compare and order values."""
    same_in_python: ClassVar[bool] = False
    """Whether the canonical value is the Python value."""
    arrow_name: ClassVar[str] = ""
    """Arrow's name for the type that Spark sends, for types without parameters."""
    canonical_arrow_name: ClassVar[str] = ""
    """Arrow's name for the type of canonical values, where it differs."""

    def __str__(self) -> str:
        return self.spark_name

    def to_json(self) -> Any:
        """The type as Spark writes it in JSON; for most types, their short name."""
        return str(self)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that Spark sends, up to names and nullability of nested fields."""
        return pa.type_for_alias(self.arrow_name)

    @property
    def canonical_arrow(self) -> pa.DataType:
        """The Arrow type of a column of canonical values: integers for all temporal types."""
        return pa.type_for_alias(self.canonical_arrow_name) if self.canonical_arrow_name else self.arrow

    @abstractmethod
    def to_canonical(self, value: Any) -> Any:
        """The canonical value of a Python value or of text; the ValueError shows how a value is written."""

    def to_python(self, value: Any) -> Any:
        """The Python value of a canonical value that is not null."""
        return value

    def floor(self, value: Any) -> tuple[Any, bool]:
        """The largest canonical value not above a literal, and whether they are equal.

        A comparison with 1.5 must work on a column of integers. Literals outside the type's range give
        `math.inf` or `-math.inf`.
        """
        return self.to_canonical(value), True

    def python_values(self, column: pa.Array) -> list[Any]:
        """The Python values of a column as Spark sends it."""
        values = column.cast(self.arrow).cast(self.canonical_arrow).to_pylist()
        if self.same_in_python:
            return list(values)
        return [None if value is None else self.to_python(value) for value in values]


@contextmanager
def explain_errors(how: str) -> Iterator[None]:
    """Says how a value is written, in place of an error of its conversion."""
    try:
        yield
    except (TypeError, ValueError, AttributeError):
        raise ValueError(how) from None
