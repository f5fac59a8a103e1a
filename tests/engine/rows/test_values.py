"""Values of every Spark type, as keys and as results, through state, restart and view."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import drive

pytestmark = pytest.mark.jvm

SCALARS = {
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "f32": "float",
    "f64": "double",
    "dec": "decimal(9,2)",
    "big": "decimal(38,10)",
    "yes": "boolean",
    "s": "string",
    "bin": "binary",
    "day": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
}
DERIVED = {
    "arr": "array(s, null, 'x')",
    "st": "named_struct('a', i32, 'b', array(dec), 'c', cast(null as int))",
}
FULL: dict[str, Any] = {
    "i8": -128,
    "i16": 32767,
    "i32": 7,
    "i64": -(2**63),
    "f32": 1.5,
    "f64": 1e300,
    "dec": Decimal("1234567.89"),
    "big": Decimal("1234567890123456789012345678.0123456789"),
    "yes": True,
    "s": "naïve \u2028 \U0001f600 'quoted' \"twice\"",
    "bin": b"\x00\xff\x10",
    "day": date(2026, 2, 28),
    "ts": datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
    "ntz": datetime(1969, 12, 31, 23, 59, 59, 999999),
}
OTHER = FULL | {"i8": 1, "f64": -0.5, "s": "", "bin": b"", "yes": False, "big": Decimal("-0.0000000001")}


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """What the derived columns of a row are to a reader."""
    return row | {
        "arr": [row["s"], None, "x"],
        "st": {"a": row["i32"], "b": [row["dec"]], "c": None},
    }


def typed() -> kf.App:
    app = kf.App("typed")
    schema = ", ".join(f"{name} {kind}" for name, kind in SCALARS.items())
    rows = app.stream("rows", kf.rows([]), schema=f"{schema}, m map<string, int>, n int").select(
        "*", **DERIVED
    )
    names = [*SCALARS, *DERIVED]
    rows.by(*names).table("keys", n="count(*)", last=kf.fold(zero={"n": "0"}, update={"n": "n"}))
    rows.by(*names).table("merged_keys", n="count(*)")
    newest = {name: f"max_by({name}, n)" for name in (*names, "m")}
    rows.by(k="'all'").table("values", newest)
    lasts = {
        name: kf.fold(zero={"v": f"cast(null as {kind})"}, update={"v": name})
        for name, kind in SCALARS.items()
    }
    rows.by(k="'all'").table("lasts", lasts | {"n": "count(distinct f64, s)"})
    return app


def test_values_of_every_type_are_keys_and_results() -> None:
    with drive(typed()) as d:
        d.push("rows", [FULL | {"n": 1, "m": {"a": 1, "b": None}}, OTHER | {"n": 2, "m": {}}])
        d.restart()
        d.push("rows", [FULL | {"n": 3, "m": {"a": 2, "ü": 0}}])
        assert d.rejected("rows") == []

        found = {r["i8"]: r for r in d.rows("keys")}
        assert found == {
            -128: stored(FULL) | {"n": 2, "last": 3},
            1: stored(OTHER) | {"n": 1, "last": 2},
        }
        assert all(isinstance(found[-128][name], Decimal) for name in ("dec", "big"))
        assert {r["i8"]: r["n"] for r in d.rows("merged_keys")} == {-128: 2, 1: 1}
        one = d.handle.table("keys").get(**{k: stored(FULL)[k] for k in (*SCALARS, *DERIVED)})
        assert one is not None
        assert one["n"] == 2

        (values,) = d.rows("values")
        assert values == {"k": "all"} | stored(FULL) | {"m": {"a": 2, "ü": 0}}
        (lasts,) = d.rows("lasts")
        assert lasts == {"k": "all"} | FULL | {"n": 2}

        # All null but for the key.
        d.push("rows", [{"n": 4}])
        (values,) = d.rows("values")
        assert values["f64"] is values["s"] is values["big"] is values["m"] is None
        assert values["st"] == {"a": None, "b": [None], "c": None}
        (lasts,) = d.rows("lasts")
        assert set(lasts.values()) == {"all", None, 2}
        assert [r["reason"] for r in d.rejected("keys")] == ["key i8 is null"]


def test_numbers_that_are_equal_are_one_key() -> None:
    app = kf.App("equal")
    rows = app.stream("rows", kf.rows([]), schema="f double, g float, x int")
    rows.by("f").table("doubles", n="count(*)", most="max(x)")
    rows.by("g").table("floats", n="count(*)", last=kf.fold(zero={"x": "0"}, update={"x": "x"}))
    rows.by(pair="struct(f, array(g))").table("nested", n="count(*)")
    nan = math.nan
    with drive(app) as d:
        d.push(
            "rows",
            [{"f": 0.0, "g": 0.0, "x": 1}, {"f": -0.0, "g": -0.0, "x": 2}, {"f": nan, "g": nan, "x": 3}],
        )
        d.push(
            "rows",
            [{"f": -0.0, "g": -0.0, "x": 4}, {"f": nan, "g": nan, "x": 5}, {"f": math.inf, "g": 1, "x": 6}],
        )
        for table in ("doubles", "floats", "nested"):
            assert sorted(r["n"] for r in d.rows(table)) == [1, 2, 3], table
        assert sorted(r["most"] for r in d.rows("doubles")) == [4, 5, 6]


def test_aggregates_of_special_numbers_and_exact_decimals() -> None:
    app = kf.App("special")
    rows = app.stream("rows", kf.rows([]), schema="k string, f double, d decimal(38,2), small decimal(5,2)")
    rows.by("k").table(
        "exact",
        d="sum(d)",
        most="max(d)",
        small="sum(small)",
        mean="avg(small)",
        f="max(f)",
        least="min(f)",
        total="sum(f)",
    )
    with drive(app) as d:
        d.push("rows", [{"k": "a"}, {"k": "b", "f": math.inf}])
        d.push(
            "rows", [{"k": "a", "d": Decimal("123456789012345678901234567890.12"), "small": Decimal("0.10")}]
        )
        d.push(
            "rows",
            [{"k": "a", "d": Decimal("0.01"), "small": Decimal("0.20"), "f": math.nan}, {"k": "a", "f": 1.0}],
        )
        d.push("rows", [{"k": "b", "f": -math.inf}])
        a, b = d.rows("exact")
        assert a["d"] == Decimal("123456789012345678901234567890.13")
        assert a["most"] == Decimal("123456789012345678901234567890.12")
        assert (a["small"], a["mean"]) == (Decimal("0.30"), Decimal("0.150000"))
        assert math.isnan(a["f"]), "NaN is the largest number in Spark"
        assert a["least"] == 1.0
        assert math.isnan(a["total"])
        assert (b["f"], b["least"]) == (math.inf, -math.inf)
        assert math.isnan(b["total"])
        # One more digit than 38 can't be kept: the row is rejected, the sum stays.
        d.push("rows", [{"k": "a", "d": Decimal("9" * 36)}, {"k": "a", "d": Decimal("9" * 36)}])
        d.push("rows", [{"k": "c", "d": Decimal("9" * 36)}])
        assert d.get("exact", "c")["d"] == Decimal("9" * 36)  # type: ignore[index]


def test_keys_that_spark_cannot_compare_by_their_bytes_are_refused_at_start() -> None:
    for schema, key in (("m map<string, int>", "struct(m)"), ("s string collate utf8_lcase", "s")):
        app = kf.App("refused")
        app.stream("rows", kf.rows([]), schema=schema).by(key=key).table("t", n="count(*)")
        with pytest.raises(kf.errors.BadExpression, match="key") as error, drive(app):
            pass
        assert "map" in str(error.value) or "collat" in str(error.value).lower()


def test_intervals_are_results_but_not_state() -> None:
    """Spark writes the schema of state as Avro, which has no intervals."""
    app = kf.App("spans")
    rows = app.stream("rows", kf.rows([]), schema="k string, at timestamp, x int")
    rows.by("k").table("lengths", length="max(at) - min(at)", months="make_ym_interval(max(x))")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "at": "2026-01-01T00:00:00Z", "x": 2}])
        d.push("rows", [{"k": "a", "at": "2026-01-02T01:00:00.000001Z"}])
        span = timedelta(days=1, hours=1, microseconds=1)
        assert d.rows("lengths") == [{"k": "a", "length": span, "months": 24}]
        assert d.changes("lengths")[-1]["length"] == span

    declared: list[tuple[str, Any]] = [
        ("key", lambda s: s.by(span="make_dt_interval(x)").table("t", n="count(*)")),
        ("longest", lambda s: s.by("k").table("t", longest="max(make_dt_interval(x))")),
        (
            "last",
            lambda s: s.by("k").table(
                "t", last=kf.fold(zero={"v": "interval '0' year"}, update={"v": "make_ym_interval(x)"})
            ),
        ),
    ]
    for name, declare in declared:
        app = kf.App("spans")
        declare(app.stream("rows", kf.rows([]), schema="k string, x int"))
        with pytest.raises(kf.errors.BadExpression, match=name) as error, drive(app):
            pass
        assert "interval" in str(error.value).lower()
