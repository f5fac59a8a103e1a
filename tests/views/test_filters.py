"""The language of `where` and `order_by`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.errors import QueryError
from keyfold.views.contract import Column, Location, ViewSchema, ViewStore
from keyfold.views.postgresql import conditions
from keyfold.views.query.filters import AnyOf, Compare
from keyfold.views.sqlite.sql import where_sql
from keyfold.views.stores import LOCAL, views_at, views_in
from keyfold.views.types.parse import parse

TYPES: dict[str, Any] = {
    "region": "string",
    "n": "long",
    "x": "double",
    "price": "decimal(10,2)",
    "big": "decimal(38,2)",
    "ok": "boolean",
    "at": "timestamp",
    "day": "date",
    "order": "long",
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
}
SCHEMA = ViewSchema(
    "t", (Column("id", parse("long")),), tuple(Column(name, parse(kind)) for name, kind in TYPES.items())
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS: list[tuple[Any, ...]] = [
    (1, "eu", 1, 1.5, Decimal("12.50"), Decimal("-5.00"), True, NOON, date(2026, 1, 1), 3, ["a"]),
    (
        2,
        "us",
        -2,
        math.nan,
        Decimal("12.51"),
        Decimal("9" * 36),
        False,
        NOON.replace(year=2027),
        date(2027, 1, 1),
        2,
        [],
    ),
    (3, "EU's", 2**63 - 1, math.inf, None, None, None, None, None, 1, None),
    (4, "", None, None, Decimal("-1"), Decimal("0.01"), True, NOON, date(1, 1, 1), 0, None),
]


@pytest.fixture(scope="module", params=[LOCAL, "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewStore]:
    directory = tmp_path_factory.mktemp("views")
    address = request.getfixturevalue("postgres").address() if request.param == "postgresql" else LOCAL
    store = views_at(Location(address, "shop", directory.as_uri(), directory)).open(read_only=False)
    store.create(SCHEMA)
    arrays = [
        pa.array([row[i] for row in ROWS], field.type) for i, field in enumerate(list(SCHEMA.arrow)[1:])
    ]
    with store.batch("t", 3, NOON) as writer:
        writer.apply(pa.RecordBatch.from_arrays([pa.array(["upsert"] * 4), *arrays], schema=SCHEMA.arrow))
    yield store
    store.close()


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (None, [1, 2, 3, 4]),
        ("", [1, 2, 3, 4]),
        ({}, [1, 2, 3, 4]),
        ("n > 0", [1, 3]),
        ("N > 0 AND Region = 'eu'", [1]),
        ("0 < n", [1, 3]),
        ("n = 9223372036854775807", [3]),
        ("n < 9223372036854775807", [1, 2]),
        ("n <= 9223372036854775808", [1, 2, 3]),
        ("n > -1e30", [1, 2, 3]),
        ("n = 1.5", []),
        ("n <> 1.5", [1, 2, 3]),
        ("not n = 1.5", [1, 2, 3]),
        ("n > 0.5 and n < 1.5", [1]),
        ("n >= 1.5", [3]),
        ("n <= 1.5", [1, 2]),
        ("n = -2", [2]),
        ("n in (1, -2, 2.5)", [1, 2]),
        ("n in (2.5)", []),
        ("n not in (1)", [2, 3]),
        ("n between -2 and 1", [1, 2]),
        ("n not between 0 and 1", [2, 3]),
        ("x > 100", [2, 3]),
        ("x = 'NaN'", [2]),
        ("x < 'NaN'", [1, 3]),
        ("x = 'Infinity'", [3]),
        ("x = n", []),
        ("price = 12.5", [1]),
        ("price > 12.505", [2]),
        ("price <= 12.505", [1, 4]),
        ("price < 1e50", [1, 2, 4]),
        ("price > -1e50", [1, 2, 4]),
        ("big < 0", [1]),
        ("big >= 0.01", [2, 4]),
        ("big > 0.005 and big < 1", [4]),
        ("big < 1e40", [1, 2, 4]),
        ("big > -1e40", [1, 2, 4]),
        ("ok", [1, 4]),
        ("not ok", [2]),
        ("ok = false", [2]),
        ("ok != true or ok is null", [2, 3]),
        ("at >= '2026-06-01'", [2]),
        ("at = timestamp '2026-01-01T12:00:00Z'", [1, 4]),
        ("at = '2026-01-01T13:00:00+01:00'", [1, 4]),
        ("day < date '2026-01-02'", [1, 4]),
        ("region = 'EU''s'", [3]),
        ('region = "EU\'s"', [3]),
        ("region = ''", [4]),
        ("region like 'e%'", [1]),
        ("region like '_s'", [2]),
        ("region like '%\\%%'", []),
        ("region like '%[a-z]%'", []),
        ("region not like 'e%'", [2, 3, 4]),
        ("region in ('eu','us') and (n = 1 or x <> 2)", [1, 2]),
        ("not (n = 1 or `order` <> 2)", [2]),
        ("tags is null", [3, 4]),
        ("tags is not null", [1, 2]),
        ("`order` = 1", [3]),
        ("_batch = 3 and _at <= '2026-01-01T12:00:00Z'", [1, 2, 3, 4]),
        ("_batch >= 4", []),
        ({"region": "eu"}, [1]),
        ({"region": ["eu", "us"], "ok": False}, [2]),
        ({"n": None}, [4]),
        ({"region": []}, []),
        ({"at": NOON, "day": date(2026, 1, 1)}, [1]),
        ({"price": "12.50"}, [1]),
    ],
)
def test_where(store: ViewStore, where: Any, ids: list[int]) -> None:
    assert [row["id"] for row in store.scan("t", where)] == ids


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("n >", "expected a column or a value, found the end"),
        ("n > > 1", "character 5: expected a column or a value, found '>'"),
        ("n", "expected a comparison"),
        ("n = 1 n = 2", "expected 'and', 'or' or the end, found 'n'"),
        ("(n = 1", "expected ')'"),
        ("n = 'x", "character 5"),
        ("n = 1; drop table t", "has a syntax error at character 6"),
        ("regon = 'eu'", "did you mean 'region'"),
        ("1 = 1", "no column"),
        ("sum(n) > 5", "calls sum(...), and filters have no functions"),
        ("n = 'one'", "a number is written"),
        ("n = null", "n is null"),
        ("region = 5", "in quotes: '5'"),
        ("at > 5", "a timestamp is written"),
        ("n like 'x'", "a bigint"),
        ("tags = 'a'", "arrays, maps and structs have no order"),
        ("tags in ('a')", "arrays, maps and structs have no order"),
        ("n = region", "the types differ"),
        ("price = big", "the types differ"),
        ("n in ()", "expected a column or a value"),
        ("n in (x)", "expected a value"),
        ("n is 5", "expected 'null'"),
        ("n = - x", "expected a number"),
        ("and", "expected a column or a value"),
        ("n = 1e99999999999999999999", "has a number out of range"),
        ("(" * 200 + "n = 1" + ")" * 200, "nested more than 100 deep"),
        ("n = 5abc", "has a syntax error at character 5"),
        ({"nn": 1}, "unknown column 'nn'"),
        ({"tags": ["a"]}, "arrays, maps and structs have no order"),
        ({1: 1}, "must be a string"),
        (["n"], "must be a string or a dict"),
    ],
)
def test_where_that_cannot_be_read_says_where(store: ViewStore, where: Any, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        store.scan("t", where)
    assert says in str(caught.value)
    assert caught.value.reason == "bad_request"
    assert caught.value.status == 400


def test_a_filter_beyond_sqlites_limits_is_a_bad_request(tmp_path: Path) -> None:
    with views_in(tmp_path / "views.db").open(read_only=False) as store:
        store.create(SCHEMA)
        with pytest.raises(QueryError) as caught:
            store.scan("t", " and ".join(["n = 1"] * 5000))
    assert caught.value.reason == "bad_request"


def test_a_filter_of_too_many_values_is_a_bad_request(store: ViewStore) -> None:
    with pytest.raises(QueryError) as caught:
        store.scan("t", AnyOf(tuple(Compare(SCHEMA.columns[1], "=", n) for n in range(40_000))))
    assert caught.value.reason == "bad_request"
    assert [row["id"] for row in store.scan("t", {"n": list(range(20_000))})] == [1]


@pytest.mark.parametrize(
    ("order_by", "ids"),
    [
        ("n", [4, 2, 1, 3]),
        ("n desc", [3, 1, 2, 4]),
        ("x", [4, 1, 3, 2]),
        ("X DESC", [2, 3, 1, 4]),
        ("price", [3, 4, 1, 2]),
        ("big desc", [2, 4, 1, 3]),
        ("ok desc, `order`", [4, 1, 2, 3]),
        (["ok desc", "order asc"], [4, 1, 2, 3]),
        ("day", [3, 4, 1, 2]),
        ("_batch, id desc", [4, 3, 2, 1]),
        ("", [1, 2, 3, 4]),
        ([], [1, 2, 3, 4]),
    ],
)
def test_order_by(store: ViewStore, order_by: Any, ids: list[int]) -> None:
    assert [row["id"] for row in store.scan("t", order_by=order_by)] == ids


@pytest.mark.parametrize(
    ("order_by", "says"),
    [
        ("m", "unknown column in order_by 'm'"),
        ("regio", "did you mean 'region'"),
        ("n up", "order_by is not a list of columns"),
        ("n,", "order_by is not a list of columns"),
        (["n", 5], "order_by is not a list of columns"),
        ("tags", "arrays, maps and structs have no order"),
        ("n; drop table t", "order_by is not a list of columns"),
    ],
)
def test_order_by_that_cannot_be_read(store: ViewStore, order_by: Any, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        store.scan("t", order_by=order_by)
    assert says in str(caught.value)


def test_values_are_never_part_of_the_sql() -> None:
    sql, params = where_sql("region = 'x' and n in (41, 42) and region like 'y%'", SCHEMA)
    assert params == ["x", 41, 42, "y*"]
    assert not {"x'", "41", "y*"} & set(sql.split())
    assert sql.count("?") == 4
    sql, params = conditions.where_sql("region = 'x' and n in (41, 42) and region like 'y%'", SCHEMA)
    assert params == ["x", [41, 42], "y%"]
    assert not {"x'", "41", "y%"} & set(sql.split())
    assert sql.count("%s") == 3
