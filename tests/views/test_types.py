"""Every type of Spark's that a view can hold comes back as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyfold.errors import DeclarationError
from keyfold.views.contract import Column, Location, ViewSchema, ViewStore
from keyfold.views.sqlite.codec import Codec, codec_of
from keyfold.views.stores import LOCAL, views_at, views_in
from keyfold.views.types.parse import STRING, parse
from tests.postgres import Server

AT = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Kind:
    """A type with raw values, how Arrow gets them, and what a reader must see, written down independently."""

    json: Any
    raw: pa.DataType
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    python: Callable[[Any], Any] = lambda value: value


def moment(zoned: bool) -> Callable[[int], datetime]:
    start = EPOCH.replace(tzinfo=UTC) if zoned else EPOCH
    return lambda micros: start + timedelta(microseconds=micros)


def decimal(precision: int, scale: int) -> Kind:
    kind = pa.decimal128(precision, scale)
    largest = 10**precision - 1
    numbers = st.integers(-largest, largest).map(lambda number: Decimal(f"{number}E-{scale}"))
    return Kind(f"decimal({precision},{scale})", kind, kind, numbers)


MICROS = st.integers((datetime.min - EPOCH) // timedelta(microseconds=1), 253402300799999999)
INTEGERS = {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64()}
SCALARS = [
    *(
        Kind(name, kind, kind, st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1))
        for name, kind in INTEGERS.items()
    ),
    Kind("float", pa.float32(), pa.float32(), st.floats(width=32)),
    Kind("double", pa.float64(), pa.float64(), st.floats()),
    decimal(10, 2),
    decimal(18, 18),
    decimal(19, 0),
    decimal(38, 10),
    Kind("boolean", pa.bool_(), pa.bool_(), st.booleans()),
    Kind("string", pa.string(), pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    Kind("binary", pa.binary(), pa.binary(), st.binary()),
    Kind(
        "date",
        pa.int32(),
        pa.date32(),
        st.integers(-719162, 2932896),
        lambda n: date(1970, 1, 1) + timedelta(n),
    ),
    Kind("timestamp", pa.int64(), pa.timestamp("us", "Europe/Berlin"), MICROS, moment(zoned=True)),
    Kind("timestamp_ntz", pa.int64(), pa.timestamp("us"), MICROS, moment(zoned=False)),
    Kind(
        "interval day to second",
        pa.int64(),
        pa.duration("us"),
        st.integers(-(2**63), 2**63 - 1),
        lambda n: timedelta(microseconds=n),
    ),
    Kind("interval year to month", pa.int32(), pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    Kind(
        "time(6)",
        pa.int64(),
        pa.time64("ns"),
        st.integers(0, 86_399_999_999).map(lambda n: n * 1000),
        lambda n: (EPOCH + timedelta(microseconds=n // 1000)).time(),
    ),
]


def each(kind: Kind, value: Any) -> Any:
    return None if value is None else kind.python(value)


def hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(hashable, value))
    return tuple(map(hashable, value.values())) if isinstance(value, dict) else value


def array(item: Kind) -> Kind:
    return Kind(
        {"type": "array", "elementType": item.json, "containsNull": True},
        pa.list_(item.raw),
        pa.list_(pa.field("element", item.arrow)),
        st.lists(st.none() | item.values, max_size=4),
        lambda values: [each(item, value) for value in values],
    )


def struct(fields: list[Kind]) -> Kind:
    named = {f"f{i}": field for i, field in enumerate(fields)}
    return Kind(
        {"type": "struct", "fields": [{"name": name, "type": kind.json} for name, kind in named.items()]},
        pa.struct([(name, kind.raw) for name, kind in named.items()]),
        pa.struct([(name, kind.arrow) for name, kind in named.items()]),
        st.fixed_dictionaries({name: st.none() | kind.values for name, kind in named.items()}),
        lambda value: {name: each(kind, value[name]) for name, kind in named.items()},
    )


def mapping(key: Kind, item: Kind) -> Kind:
    pairs = st.tuples(key.values, st.none() | item.values)
    return Kind(
        {"type": "map", "keyType": key.json, "valueType": item.json, "valueContainsNull": True},
        pa.map_(key.raw, item.raw),
        pa.map_(key.arrow, item.arrow),
        st.lists(pairs, max_size=4, unique_by=lambda pair: repr(hashable(key.python(pair[0])))),
        lambda value: {hashable(key.python(k)): each(item, v) for k, v in value},
    )


SCALAR_KINDS = st.sampled_from(SCALARS)
KEYS = st.sampled_from([kind for kind in SCALARS if kind.json not in ("float", "double")])
KINDS = st.recursive(
    SCALAR_KINDS,
    lambda inner: st.one_of(
        inner.map(array),
        st.lists(inner, min_size=1, max_size=3).map(struct),
        st.tuples(KEYS | KEYS.map(array) | KEYS.map(lambda kind: struct([kind])), inner).map(
            lambda pair: mapping(*pair)
        ),
    ),
    max_leaves=4,
)


def same(one: Any, other: Any) -> bool:
    """Equal in value and type, NaN equal to NaN, zeros of different sign not."""
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return [*map(repr, one)] == [*map(repr, other)] and all(
            same(a, b) for a, b in zip(one.values(), other.values(), strict=True)
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other) and repr(one) == repr(other)


def literal(codec: Codec, value: Any) -> Any:
    """The SQLite value of a Python value or of text, as in a key: "2026-01-01T00:00:00Z", "true"."""
    return codec.encode_value(codec.type.to_canonical(value))


def decoded(codec: Codec, value: Any) -> Any:
    """As a store reads it: values that SQLite holds as Python has them are not decoded."""
    return value if value is None or codec.stores_python_values else codec.decode(value)


def as_arrow(kind: Kind, values: list[Any]) -> pa.Array:
    return pa.array(values, kind.raw).cast(kind.arrow)


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_type_comes_back_as_it_was(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    raw = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=6))
    type = parse(kind.json)
    codec = codec_of(type)
    # A slice that starts further on, since buffers hold more than a slice shows.
    column = as_arrow(kind, raw * 2).slice(len(raw))
    stored = codec.encode(column.cast(type.arrow).cast(type.canonical_arrow))
    expected = [each(kind, value) for value in raw]
    # Without a store, and by way of SQLite.
    for read in (type.python_values(column), [decoded(codec, value) for value in stored]):
        assert all(same(a, b) for a, b in zip(read, expected, strict=True)), read
    assert parse(type.to_json()) == type


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_type_comes_back_from_postgresql(postgres_store: ViewStore, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=5))
    columns = tuple(Column(f"c{i}", parse(kind.json)) for i, kind in enumerate(kinds))
    schema = ViewSchema("t", (Column("k", parse("long")),), columns)
    drawn = [data.draw(st.lists(st.none() | kind.values, min_size=4, max_size=4)) for kind in kinds]
    changes = changes_of(schema, [as_arrow(kind, values) for kind, values in zip(kinds, drawn, strict=True)])
    postgres_store.rebuild("t", schema, [changes], 0, AT)
    for kind, values, column in zip(kinds, drawn, columns, strict=True):
        read = [row[column.name] for row in postgres_store.scan("t")]
        assert all(same(a, each(kind, b)) for a, b in zip(read, values, strict=True)), (kind.json, read)
        for value in read if column.type.scalar else ():
            found = {row["k"] for row in postgres_store.scan("t", {column.name: value})}
            assert found == {k for k, other in enumerate(read) if other == value or same(other, value)}
    assert postgres_store.compare(schema, [changes], None, 5) == []


def changes_of(schema: ViewSchema, values: list[pa.Array]) -> pa.RecordBatch:
    count = len(values[0])
    names = ["_op", *(column.name for column in (*schema.keys, *schema.columns))]
    return pa.RecordBatch.from_arrays([pa.array(["upsert"] * count), pa.array(range(count)), *values], names)


@pytest.fixture(scope="module")
def postgres_store(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewStore]:
    directory = tmp_path_factory.mktemp("types")
    where = Location(postgres.address(), "types", directory.as_uri(), directory)
    with views_at(where).open(read_only=False) as store:
        yield store


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_value_that_was_read_is_a_literal_for_the_same_row(data: st.DataObject) -> None:
    kind = data.draw(SCALAR_KINDS | KEYS.map(array) | KEYS.map(lambda k: struct([k])))
    type = parse(kind.json)
    codec = codec_of(type)
    column = as_arrow(kind, [data.draw(kind.values)])
    (stored,) = codec.encode(column.cast(type.arrow).cast(type.canonical_arrow))
    assert literal(codec, decoded(codec, stored)) == stored
    if type.scalar:
        assert codec.floor(decoded(codec, stored)) == (stored, True)


@pytest.fixture(params=[LOCAL, "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ViewStore]:
    if request.param == LOCAL:
        with views_in(tmp_path / "views.db").open(read_only=False) as store:
            yield store
    else:
        store = request.getfixturevalue("postgres_store")
        store.drop("t")
        yield store


@pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.json)
def test_the_store_keeps_the_order_of_the_values(kind: Kind, store: ViewStore) -> None:
    schema = ViewSchema("t", (Column("k", parse("long")),), (Column("v", parse(kind.json)),))
    drawn: list[Any] = []

    @given(st.lists(kind.values, min_size=40, max_size=40))
    @settings(max_examples=1, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def draw(values: list[Any]) -> None:
        drawn.extend(values)

    draw()
    store.create(schema)
    with store.batch("t", 0, AT) as writer:
        writer.apply(changes_of(schema, [as_arrow(kind, drawn)]))
    read = [row["v"] for row in store.scan("t", order_by="v")]
    expected = sorted(map(kind.python, drawn), key=lambda value: (value != value, value))
    assert all(same(abs(a) if a == 0 else a, abs(b) if b == 0 else b) if isinstance(a, float) else a == b
               for a, b in zip(read, expected, strict=True))  # fmt: skip


ROUND_TRIPS: list[tuple[Any, Any, Any]] = [
    ("long", 2**63 - 1, 2**63 - 1),
    ("long", str(-(2**63)), -(2**63)),
    ("byte", "7", 7),
    ("double", "NaN", math.nan),
    ("double", "-Infinity", -math.inf),
    ("double", 10**400, math.inf),
    ("float", 0.1, 0.10000000149011612),
    ("float", 1e300, math.inf),
    ("decimal(10,2)", "12.50", Decimal("12.50")),
    ("decimal(10,2)", 12.5, Decimal("12.50")),
    ("decimal(38,2)", "-0.01", Decimal("-0.01")),
    ("boolean", "TRUE", True),
    ("boolean", False, False),
    ("string", "", ""),
    ("string", "a\0b", "a\0b"),
    ("binary", "0x00ff", b"\0\xff"),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("date", date(2026, 1, 31), date(2026, 1, 31)),
    ("timestamp", "2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
    ("timestamp", "2026-01-01 01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC)),
    ("timestamp", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
    ("timestamp", datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
    ("timestamp", date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
    ("timestamp_ntz", "2026-01-01T00:00:00.5", datetime(2026, 1, 1, microsecond=500_000)),
    ("time(6)", "13:30", time(13, 30)),
    ("interval day to second", "1 hour 30 minutes", timedelta(hours=1.5)),
    ("interval year to month", 14, 14),
    (
        {"type": "array", "elementType": "date", "containsNull": True},
        '["2026-01-31", null]',
        [date(2026, 1, 31), None],
    ),
    ({"type": "map", "keyType": "long", "valueType": "string"}, {"1": "a"}, {1: "a"}),
]


@pytest.mark.parametrize(("kind", "value", "read"), ROUND_TRIPS)
def test_literals_are_read_by_their_type(kind: Any, value: Any, read: Any) -> None:
    type = parse(kind)
    stored = literal(codec_of(type), value)
    assert stored is not None
    assert same(decoded(codec_of(type), stored), read)
    assert same(type.to_python(type.to_canonical(value)), read)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 2**63),
        ("long", "1.5"),
        ("long", "x"),
        ("long", True),
        ("long", "1e400"),
        ("double", "x"),
        ("double", True),
        ("decimal(10,2)", "1.234"),
        ("decimal(10,2)", "123456789.00"),
        ("decimal(10,2)", "NaN"),
        ("decimal(10,2)", "1e99999999999999999999"),
        ("boolean", 1),
        ("string", 5),
        ("string", "\ud800"),
        ("binary", "xyz"),
        ("date", "yesterday"),
        ("date", 5),
        ("timestamp", "2026-13-01"),
        ("timestamp", 0),
        ("timestamp", "+999999999-01-01T00:00:00Z"),
        ("timestamp_ntz", "2026-01-01T00:00:00Z"),
        ("time(6)", "25:00"),
        ("interval day to second", "a while"),
        ("void", 1),
        ({"type": "array", "elementType": "long", "containsNull": True}, "[1"),
        ({"type": "array", "elementType": "long", "containsNull": True}, 5),
        ({"type": "struct", "fields": [{"name": "a", "type": "long"}]}, {"b": 1}),
    ],
)
def test_literals_that_do_not_fit_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w+"):
        parse(kind).to_canonical(value)


@pytest.mark.parametrize(
    ("kind", "stored", "text"),
    [
        ("timestamp", -62135596800000001, "0000-12-31T23:59:59.999999Z"),
        ("timestamp", 253402300800000000, "+10000-01-01T00:00:00Z"),
        ("timestamp", -(2**63), "-290308-12-21T19:59:05.224192Z"),
        ("timestamp", 2**63 - 1, "+294247-01-10T04:00:54.775807Z"),
        ("timestamp_ntz", 253402300800000000, "+10000-01-01T00:00:00"),
        ("date", -719163, "0000-12-31"),
        ("date", 2932897, "+10000-01-01"),
        ("date", -(2**31), "-5877641-06-23"),
    ],
)
def test_years_beyond_pythons_are_text_that_can_be_given_back(kind: str, stored: int, text: str) -> None:
    assert parse(kind).to_python(stored) == codec_of(parse(kind)).decode(stored) == text
    assert parse(kind).to_canonical(text) == literal(codec_of(parse(kind)), text) == stored


NULLS = pa.null()
VOIDS: list[tuple[Any, pa.DataType, list[Any], list[Any]]] = [
    ("void", NULLS, [None, None], [None, None]),
    (
        {"type": "array", "elementType": "void"},
        pa.list_(NULLS),
        [[None], [None, None]],
        [[None], [None, None]],
    ),
    (
        {"type": "map", "keyType": "string", "valueType": "void"},
        pa.map_(pa.string(), NULLS),
        [[("a", None)], [("a", None), ("b", None)]],
        [{"a": None}, {"a": None, "b": None}],
    ),
    (
        {"type": "array", "elementType": {"type": "struct", "fields": [{"name": "a", "type": "void"}]}},
        pa.list_(pa.struct([("a", NULLS)])),
        [[{"a": None}], [{"a": None}, None]],
        [[{"a": None}], [{"a": None}, None]],
    ),
]


@pytest.mark.parametrize(("kind", "arrow", "values", "read"), VOIDS)
def test_nulls_without_a_type_come_back(kind: Any, arrow: Any, values: list[Any], read: list[Any]) -> None:
    type = parse(kind)
    codec = codec_of(type)
    for start in (0, 1):
        column = pa.array(values, arrow).slice(start)
        stored = codec.encode(column.cast(type.arrow).cast(type.canonical_arrow))
        assert [decoded(codec, value) for value in stored] == read[start:]
        assert type.python_values(column) == read[start:]


def test_types_are_named_as_spark_names_them() -> None:
    schema = {
        "type": "struct",
        "fields": [{"name": "a", "type": "integer"}, {"name": "b", "type": "decimal(5,2)"}],
    }
    assert str(parse(schema)) == "struct<a:int,b:decimal(5,2)>"
    assert parse("varchar(5)") == parse("string collate UTF8_LCASE") == STRING
    assert str(parse("interval hour to minute")) == "interval hour to minute"
    assert parse({"type": "udt", "class": "x", "sqlType": "double"}) == parse("double")


@pytest.mark.parametrize("kind", ["variant", "interval", "point", {"type": "object"}, None, 5])
def test_a_type_that_a_view_cannot_hold_is_refused(kind: Any) -> None:
    with pytest.raises(DeclarationError, match="do not support the type"):
        parse(kind)


def test_a_struct_with_two_fields_of_one_name_is_refused() -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "a", "type": "long"}]
    with pytest.raises(DeclarationError, match="two fields named 'a'"):
        parse({"type": "struct", "fields": fields})
