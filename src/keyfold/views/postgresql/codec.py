"""How each of Spark's types is stored in PostgreSQL and read back as Python values.

| Spark | PostgreSQL |
|---|---|
| byte, short | smallint |
| integer, interval year to month | integer |
| long | bigint |
| float, double | real, double precision; NaN sorts above all numbers, as in Spark |
| decimal | numeric(precision, scale) |
| boolean | boolean |
| string, char, varchar | text in byte order; the characters 0 and 1 as two each (`escaped_text`) |
| binary | bytea |
| date | date |
| timestamp, timestamp_ntz | timestamp with and without time zone |
| time | time |
| interval day to second | bigint, microseconds |
| array, map, struct | json (`nested_json`), which keeps the text as it is; in keys text |
| void | smallint, null |

Dates and timestamps before 4714 BC, and dates after the year 5874897, are refused: PostgreSQL has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keyfold.views import arrow as pa
from keyfold.views.postgresql import temporal_text
from keyfold.views.postgresql.escaped_text import escaped, escaped_column, unescaped
from keyfold.views.types import nested_json
from keyfold.views.types.base import DataType
from keyfold.views.types.nested import Nested
from keyfold.views.types.numbers import Exact, Integer
from keyfold.views.types.scalars import Binary, Boolean, Floating, Text
from keyfold.views.types.temporal import Clock, Date, DayTime, Timestamp

_INTEGERS = {"byte": "smallint", "short": "smallint", "integer": "integer", "long": "bigint"}
Decode = Callable[[Any], Any]


class Codec:
    """Values as PostgreSQL has them too; the base of the other codecs."""

    decode: Decode | None = None
    """The Python value of one that was read and is not null; None if they are the same."""

    def __init__(self, type: DataType, name: str) -> None:
        self.type: Any = type
        self.name = name
        """PostgreSQL's name of the type, as the server writes it."""

    @property
    def declared(self) -> str:
        """The type of a column."""
        return self.name

    def encode(self, column: pa.Array) -> pa.Array:
        """The values of a column of canonical values, as COPY reads them."""
        return column

    def parameter(self, value: Any) -> Any:
        """A canonical value as a parameter of a statement, which casts it to the type."""
        return value


class TextCodec(Codec):
    """Text in the order of its bytes, which is that of the code points."""

    def __init__(self, type: DataType) -> None:
        super().__init__(type, "text")
        self.decode = unescaped

    @property
    def declared(self) -> str:
        return 'text COLLATE "C"'

    def encode(self, column: pa.Array) -> pa.Array:
        return escaped_column(column)

    def parameter(self, value: str) -> str:
        return escaped(value)


class BinaryCodec(Codec):
    """Bytes; COPY reads them in hexadecimal."""

    def encode(self, column: pa.Array) -> pa.Array:
        values = (None if value is None else f"\\x{value.hex()}" for value in column.to_pylist())
        return pa.array(values, pa.string())


class ExactCodec(Codec):
    """Decimals; with an unusual scale the server does not know how many digits there are."""

    def __init__(self, type: Exact) -> None:
        usual = 0 <= type.scale <= type.precision
        super().__init__(type, f"numeric({type.precision},{type.scale})" if usual else "numeric")
        if not usual:
            self.decode = lambda value: type.from_unscaled(type.to_unscaled(value))

    def encode(self, column: pa.Array) -> pa.Array:
        return column.cast(pa.string())


class TemporalCodec(Codec):
    """Dates and times; they are read as integers, since Python's have fewer years."""

    def __init__(self, type: DataType, name: str, texts: temporal_text.Texts) -> None:
        super().__init__(type, name)
        self._texts = texts
        self.decode = type.to_python

    def encode(self, column: pa.Array) -> pa.Array:
        return self._texts.column(column)

    def parameter(self, value: int) -> str:
        return self._texts.literal(value)


class NestedCodec(Codec):
    """JSON; its text is kept as it is, with the order of its names."""

    def __init__(self, type: Nested, *, key: bool) -> None:
        super().__init__(type, "text" if key else "json")
        self._to_leaf, from_leaf = nested_json.to_leaf(type), nested_json.from_leaf(type)
        self.decode = lambda value: from_leaf(nested_json.loads(value))

    @property
    def declared(self) -> str:
        return 'text COLLATE "C"' if self.name == "text" else self.name

    def encode(self, column: pa.Array) -> pa.Array:
        values = [None if value is None else self.parameter(value) for value in column.to_pylist()]
        return pa.array(values, pa.string())

    def parameter(self, value: Any) -> str:
        return nested_json.dumps(self._to_leaf(value))


@functools.lru_cache(maxsize=1024)
def codec_of(type: DataType, key: bool = False) -> Codec:
    """The codec of a type; that of a column of the key can be another one."""
    match type:
        case Integer():
            return Codec(type, _INTEGERS.get(type.name, "integer"))
        case Floating():
            return Codec(type, "real" if type.single else "double precision")
        case Exact():
            return ExactCodec(type)
        case Boolean():
            return Codec(type, "boolean")
        case Text():
            return TextCodec(type)
        case Binary():
            return BinaryCodec(type, "bytea")
        case Date():
            return TemporalCodec(type, "date", temporal_text.DATES)
        case Timestamp():
            zone = "with" if type.zoned else "without"
            return TemporalCodec(type, f"timestamp {zone} time zone", temporal_text.TIMESTAMPS)
        case Clock():
            return TemporalCodec(type, "time without time zone", temporal_text.CLOCKS)
        case DayTime():
            codec = Codec(type, "bigint")
            codec.decode = type.to_python
            return codec
        case Nested():
            return NestedCodec(type, key=key)
    return Codec(type, "smallint")
