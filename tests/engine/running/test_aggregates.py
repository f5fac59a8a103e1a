"""Every aggregate of Spark's, kept up to date batch by batch, equals Spark's answer over all rows at once."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import drive

pytestmark = pytest.mark.jvm

SCHEMA = (
    "k string, x int, y double, s string, u bigint, c string, yes boolean, d decimal(20,4), "
    "a array<int>, at timestamp"
)

AGGREGATES = {
    "any": "any(x > 30)",
    "any_value": "any_value(c)",
    "approx_count_distinct": "approx_count_distinct(x)",
    "approx_percentile": "approx_percentile(x, array(0.1, 0.5, 0.9))",
    "approx_top_k": "transform(approx_top_k(x % 3, 1), e -> e.item)",
    "array_agg": "sort_array(array_agg(x))",
    "avg": "avg(x)",
    "avg_decimal": "avg(d)",
    "bit_and": "bit_and(u)",
    "bit_or": "bit_or(u)",
    "bit_xor": "bit_xor(u)",
    "bitmap": "bitmap_count(bitmap_construct_agg(bitmap_bit_position(u)))",
    "bitmap_and": "bitmap_and_agg(unhex('FFFF'))",
    "bitmap_or": "bitmap_or_agg(unhex('0F0F'))",
    "bool_and": "bool_and(yes)",
    "collect_list": "sort_array(collect_list(struct(u, s)))",
    "collect_set": "sort_array(collect_set(x))",
    "corr": "corr(x, y)",
    "count": "count(*)",
    "count_x": "count(x)",
    "count_both": "count(x, y)",
    "count_distinct": "count(distinct x)",
    "count_distinct_two": "count(distinct x, s)",
    "count_distinct_filter": "count(distinct x) filter (where yes)",
    "count_if": "count_if(yes)",
    "count_min_sketch": "count_min_sketch(x, 0.5d, 0.5d, 1)",
    "covar_pop": "covar_pop(x, y)",
    "covar_samp": "covar_samp(x, y)",
    "every": "every(yes)",
    "first": "first(c)",
    "first_known": "first(c, true)",
    "first_value": "first_value(c)",
    "hll": "hll_sketch_estimate(hll_sketch_agg(x))",
    "kll": "kll_sketch_get_n_bigint(kll_sketch_agg_bigint(x))",
    "kurtosis": "kurtosis(y)",
    "last": "last(c)",
    "last_value": "last_value(c)",
    "max": "max(s)",
    "max_decimal": "max(d)",
    "max_struct": "max(struct(x, u))",
    "max_array": "max(a)",
    "max_by": "max_by(s, u)",
    "median": "median(y)",
    "min": "min(at)",
    "min_by": "min_by(struct(x, y), u)",
    "mode": "mode(x % 2, true)",
    "percentile": "percentile(y, array(0.25, 0.75))",
    "percentile_weighted": "percentile(y, 0.5, abs(x) + 1)",
    "percentile_cont": "percentile_cont(0.3) within group (order by y)",
    "percentile_disc": "percentile_disc(0.3) within group (order by y desc)",
    "regr_avgx": "regr_avgx(y, x)",
    "regr_avgy": "regr_avgy(y, x)",
    "regr_count": "regr_count(y, x)",
    "regr_intercept": "regr_intercept(y, x)",
    "regr_r2": "regr_r2(y, x)",
    "regr_slope": "regr_slope(y, x)",
    "regr_sxx": "regr_sxx(y, x)",
    "regr_sxy": "regr_sxy(y, x)",
    "regr_syy": "regr_syy(y, x)",
    "skewness": "skewness(y)",
    "some": "some(yes)",
    "stddev": "stddev(y)",
    "stddev_pop": "stddev_pop(y)",
    "sum": "sum(x)",
    "sum_decimal": "sum(d)",
    "sum_double": "sum(y)",
    "sum_filter": "sum(x) filter (where yes)",
    "theta": "theta_sketch_estimate(theta_sketch_agg(x))",
    "try_avg": "try_avg(x)",
    "try_sum": "try_sum(u * 9000000000)",
    "var_pop": "var_pop(y)",
    "var_samp": "var_samp(y)",
    "combined": "sum(x) / count(*) + max(x) - coalesce(min(y), 0)",
    "conditional": "case when count(x) > 3 then max(s) else min(s) end",
    "higher_order": "aggregate(collect_list(x), 0, (a, b) -> a + b)",
}


def rows() -> list[dict[str, Any]]:
    """Four keys with nulls in every column; `u` is unique, `c` is the same for all rows of a key."""
    chance = random.Random(3)
    found = []
    for n in range(90):
        k = chance.choice("abcd")
        row: dict[str, Any] = {
            "k": k,
            "x": chance.randrange(-20, 60),
            "y": round(chance.uniform(-5, 5), 3),
            "s": chance.choice("pqrstuv") * chance.randrange(0, 3),
            "yes": chance.random() < 0.6,
            "d": Decimal(chance.randrange(-(10**12), 10**12)).scaleb(-4),
            "a": [chance.randrange(3) for _ in range(chance.randrange(4))],
            "at": datetime(2026, 1, 1, 0, 0, chance.randrange(60), tzinfo=UTC),
        }
        for name in [name for name in row if name != "k" and chance.random() < 0.15]:
            row[name] = None
        found.append(row | {"u": 1000 + n, "c": k.upper()})
    chance.shuffle(found)
    return found


def same(one: Any, other: Any) -> bool:
    """Equal but for the order in which doubles were added."""
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
            or (one != one and other != other)
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, bytes | bytearray) and isinstance(other, bytes | bytearray):
        return bytes(one) == bytes(other)
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one.astimezone(UTC) == other.astimezone(UTC)
    return bool(one == other)


def test_every_aggregate_of_sparks_equals_the_batch() -> None:
    app = kf.App("every_one")
    stream = app.stream("rows", kf.rows([]), schema=SCHEMA)
    stream.by("k").table("merged", AGGREGATES)
    # Beside a fold, rows reach the state one by one.
    one_by_one = kf.fold(zero={"n": "0L"}, update={"n": "state.n + 1"})
    stream.by("k").table("mixed", {**AGGREGATES, "own": one_by_one}, partitions=1)
    pushed = rows()
    with drive(app) as d:
        d.push("rows", pushed[:1])
        d.push("rows", pushed[1:50])
        d.crash()
        d.push("rows", pushed[50:])
        assert d.rejected("rows") == []
        spark = d.handle.spark
        feed = str(d.handle.home.path / "feeds" / "rows")
        whole = spark.read.schema(SCHEMA).json(feed).groupBy("k")
        from pyspark.sql import functions as F

        batch = whole.agg(*[F.expr(e).alias(n) for n, e in AGGREGATES.items()]).collect()
        expected = {row["k"]: row.asDict(recursive=True) for row in batch}
        for table in ("merged", "mixed"):
            found = {row["k"]: row for row in d.rows(table)}
            assert found.keys() == expected.keys()
            wrong = [
                f"{name} of {k}: {found[k][name]!r}, Spark says {expected[k][name]!r}"
                for k in expected
                for name in AGGREGATES
                if not same(found[k][name], expected[k][name])
            ]
            assert wrong == [], table
