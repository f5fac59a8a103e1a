"""State and its definition: spelling may change, meaning may not, and a refusal changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import session
from keyfold.engine.compile.table import compile_app
from keyfold.engine.recovery import definition
from keyfold.errors import StateMismatch
from keyfold.settings import load
from keyfold.testing import drive, shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "region string, amount double, x int, y int, at timestamp, siblings int, teheran int"
Declare = Callable[[kf.Stream], Any]


def app_with(declare: Declare, schema: str = SCHEMA, **options: Any) -> kf.App:
    app = kf.App("shop")
    declare(app.stream("orders", kf.rows([]), schema=schema, **options))
    return app


@pytest.fixture
def fingerprint(tmp_path: Path) -> Callable[..., str]:
    """The fingerprint of the one table of an app, without starting it."""

    def of(declare: Declare, schema: str = SCHEMA, **options: Any) -> str:
        spec = app_with(declare, schema, **options).spec()
        own = session.users_session(shared_session(), load())
        (table,) = compile_app(own, spec, {"orders": tmp_path})
        return definition.fingerprint(definition.meaning_of(table))

    return of


def table(**columns: Any) -> Declare:
    return lambda s: s.by("region").table("t", **columns)


def counting(where: str) -> Declare:
    return lambda s: s.where(where).by("region").table("t", n="count(*)")


def folding(**parts: Any) -> Declare:
    fold = {"zero": {"v": "0D"}, "update": {"v": "state.v + amount"}} | parts
    return table(v=kf.fold(**fold))


def column_function() -> Any:
    from pyspark.sql import functions as F

    return F.sum("amount")


SAME: dict[str, tuple[Declare, Declare]] = {
    "case and space": (table(v="sum(amount)"), table(v=" SUM( amount )  /* all of it */")),
    "quotes": (table(v="max(lower(region))"), table(v="MAX(LOWER(`region`))")),
    "sides": (counting("x > 0"), counting("0 < x")),
    "and": (counting("x = 1 and amount > 2"), counting("(amount > 2) AND 1 = x")),
    "sum": (table(v="sum(x + y)"), table(v="sum(y + x)")),
    "between": (counting("x between 1 and 2"), counting("x >= 1 and x <= 2")),
    "key": (table(n="count(*)"), lambda s: s.by(region="REGION").table("t", n="count(*)")),
    "select": (table(v="sum(x + 1)"), lambda s: s.select("*", c="x + 1").by("region").table("t", v="sum(c)")),
    "select of all": (table(v="sum(x)"), lambda s: s.select("*").by("region").table("t", v="sum(x)")),
    "function": (table(v="sum(amount)"), table(v=column_function)),
    "fold": (folding(), folding(update={"v": "amount + STATE.v"})),
    "retract": (folding(retract={"v": "state.v + -amount"}), folding(retract={"v": "-AMOUNT + STATE.v"})),
    "fields": (
        table(v=kf.fold(zero={"a": "0", "b": "0"}, update={"b": "y", "a": "x"}, result="state.a + state.b")),
        table(v=kf.fold(zero={"a": "0", "b": "0"}, update={"a": "x", "b": "y"}, result="state.b + state.a")),
    ),
    "ttl": (table(n="count(*)", ttl="1 hour"), table(n="count(*)", ttl="60 minutes")),
    "help": (table(n="count(*)"), table(n="count(*)", help="How many", on_error="fail")),
    "transform": (
        lambda s: s.transform(lambda df: df.where("x > 0")).by("region").table("t", n="count(*)"),
        lambda s: s.transform(lambda rows: rows.filter("X > 0")).by("region").table("t", n="count(*)"),
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_another_spelling_is_the_same_definition(what: str, fingerprint: Callable[..., str]) -> None:
    one, other = SAME[what]
    assert fingerprint(one) == fingerprint(other)


def test_what_the_table_does_not_read_is_no_part_of_it(fingerprint: Callable[..., str]) -> None:
    sums = table(v="sum(amount)")
    assert fingerprint(sums) == fingerprint(sums, "amount   DOUBLE , region STRING, more int")
    assert fingerprint(sums) == fingerprint(sums, SCHEMA, time="at", late="1 hour")
    assert fingerprint(sums) != fingerprint(sums, SCHEMA.replace("amount double", "amount float"))


def branches(condition: str, **new: str) -> Declare:
    def declare(s: kf.Stream) -> None:
        both = s.where(condition).select("region", v=new.get("v", "x")).union(s.select("region", v="y"))
        both.by("region").table("t", v="sum(v)")

    return declare


LONG = ", ".join(map(str, range(40)))
OTHER: dict[str, tuple[Declare, Declare]] = {
    "column": (table(v="sum(x)"), table(v="sum(y)")),
    "aggregate": (table(v="min(x)"), table(v="max(x)")),
    "name": (table(v="sum(x)"), table(w="sum(x)")),
    "distinct": (table(v="count(x)"), table(v="count(distinct x)")),
    "filter": (table(v="count(*)"), table(v="count(*) filter (where x > 0)")),
    "order": (counting("x - y > 0"), counting("y - x > 0")),
    "equal": (counting("x > 0"), counting("x >= 0")),
    "text": (counting("region = '#1'"), counting("region = '#2'")),
    "text with number": (counting("region like '%#12L%'"), counting("region like '%#13L%'")),
    "case of text": (counting("region = 'a'"), counting("region = 'A'")),
    "long list": (counting(f"x in ({LONG}, 41)"), counting(f"x in ({LONG}, 42)")),
    "many arguments": (
        table(v=f"max(greatest(x, {LONG}, 41))"),
        table(v=f"max(greatest(x, {LONG}, 42))"),
    ),
    "struct": (
        table(v=f"max(struct(x, {LONG}, 41))"),
        table(v=f"max(struct(x, {LONG}, 42))"),
    ),
    "equal hashes": (table(v="sum(siblings)"), table(v="sum(teheran)")),
    "percentage": (table(v="percentile(x, 0.5)"), table(v="percentile(x, 0.9)")),
    "accuracy": (table(v="percentile_approx(x, 0.5, 100)"), table(v="percentile_approx(x, 0.5, 1000)")),
    "key": (table(n="count(*)"), lambda s: s.by(region="upper(region)").table("t", n="count(*)")),
    "more keys": (table(n="count(*)"), lambda s: s.by("region", "x").table("t", n="count(*)")),
    "zero": (folding(), folding(zero={"v": "1D"})),
    "zero type": (
        folding(zero={"v": "cast(null as double)"}),
        folding(zero={"v": "cast(null as float)"}, update={"v": "cast(state.v + amount as float)"}),
    ),
    "update": (folding(), folding(update={"v": "state.v - amount"})),
    "retract": (folding(retract={"v": "state.v - amount"}), folding(retract={"v": "state.v - amount * 2"})),
    "result": (folding(), folding(result="state.v * 2")),
    "merge": (folding(merge={"v": "state.v + other.v"}), folding(merge={"v": "greatest(state.v, other.v)"})),
    "ttl": (table(n="count(*)", ttl="1 hour"), table(n="count(*)", ttl="2 hours")),
    "no ttl": (table(n="count(*)"), table(n="count(*)", ttl="2 hours")),
    "union where": (branches("x > 0"), branches("x > 1")),
    "union select": (branches("x > 0"), branches("x > 0", v="x + 1")),
    "transform": (
        lambda s: s.transform(lambda df: df.where("x > 0")).by("region").table("t", n="count(*)"),
        lambda s: s.transform(lambda df: df.where("x > 1")).by("region").table("t", n="count(*)"),
    ),
    "transform text": (
        lambda s: s.transform(lambda df: df.where("region = '#1'")).by("region").table("t", n="count(*)"),
        lambda s: s.transform(lambda df: df.where("region = '#2'")).by("region").table("t", n="count(*)"),
    ),
    "before transform": (
        lambda s: s.where("x > 0").transform(lambda df: df).by("region").table("t", n="count(*)"),
        lambda s: s.where("x > 1").transform(lambda df: df).by("region").table("t", n="count(*)"),
    ),
}


@pytest.mark.parametrize("what", OTHER)
def test_another_meaning_is_another_definition(what: str, fingerprint: Callable[..., str]) -> None:
    one, other = OTHER[what]
    assert fingerprint(one) != fingerprint(other)


def test_another_event_time_is_another_definition_where_keys_expire(fingerprint: Callable[..., str]) -> None:
    schema = "region string, at timestamp, seen timestamp"
    kept = table(n="count(*)", ttl="1 hour")
    prints = {fingerprint(kept, schema, time=time) for time in ("at", "seen", None)}
    assert len(prints) == 3
    assert fingerprint(kept, schema, time="at") == fingerprint(kept, schema, time="AT")


def digest(home: Path) -> dict[str, str]:
    # Without the lease, which a start holds before it looks at anything.
    files = sorted(p for p in home.rglob("*") if p.is_file() and p.parent.name != "lease")
    return {str(p.relative_to(home)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def shop(rows: int = 0, where: str = "x > 0", ttl: str | None = "1 hour", **columns: Any) -> kf.App:
    app = kf.App("shop")
    given = [{"region": "eu", "x": n, "at": "2026-01-01T00:00:00Z"} for n in range(rows)]
    orders = app.stream("orders", kf.rows(given), schema=SCHEMA, time="at")
    partitions = columns.pop("partitions", None)
    key = columns.pop("key", "region")
    columns = {"least": "min(x)", "most": "max(x)"} | columns
    orders.where(where).by(region=key).table("t", columns, ttl=ttl, partitions=partitions)
    orders.by("region").table("other", n="count(*)")
    return app


def test_state_of_another_definition_is_refused_with_what_differs_and_left_alone(tmp_path: Path) -> None:
    with shop(rows=5).start(spark=shared_session(), home=tmp_path) as handle:
        handle.drain()
        before = handle.table("t").rows()
        assert [(r["region"], r["least"], r["most"]) for r in before] == [("eu", 1, 4)]
    written = digest(tmp_path)
    changed: dict[str, tuple[kf.App, tuple[str, ...]]] = {
        "aggregate": (shop(5, least="min(y)"), ("column least", "min(`y`)", "min(`x`)", "on disk", "now")),
        "where": (shop(5, where="x > 1"), ("where 0: (0 < `x`) on disk, (1 < `x`) now",)),
        "key": (shop(5, key="lower(region)"), ("key region", "lower")),
        "no ttl": (shop(5, ttl=None), ("ttl: 1 hour on disk, nothing now", "keyfold migrate")),
        "new column": (shop(5, mean="avg(x)"), ("column mean", "nothing on disk")),
        "partitions": (shop(5, partitions=7), ("partitions", "7", "2 on disk")),
        "more rows too": (shop(6, least="min(y)"), ("column least",)),
    }
    for what, (app, words) in changed.items():
        with pytest.raises(StateMismatch) as error:
            app.start(spark=shared_session(), home=tmp_path)
        text = str(error.value)
        for word in ("shop.t", "nothing was changed", "--home", "new name", *words):
            assert word in text, f"{what}: {word} is not in {text}"
        assert digest(tmp_path) == written, what

    # Rows that were folded can't be retracted either.
    with pytest.raises(StateMismatch, match="rows of stream orders"):
        shop(4).start(spark=shared_session(), home=tmp_path)
    assert digest(tmp_path) == written

    # The old definition continues, in another spelling and with more rows; the partitions stay the same.
    # So does the length of a TTL, which takes effect at once.
    spelled = shop(rows=7, where="0 < x", ttl="90 minutes", least="MIN( X )", partitions=2)
    with spelled.start(spark=shared_session(), home=tmp_path) as handle:
        handle.drain()
        assert [(r["region"], r["least"], r["most"]) for r in handle.table("t").rows()] == [("eu", 1, 6)]


@pytest.mark.parametrize("views", ["sqlite", "none"])
@pytest.mark.parametrize("folds", [False, True], ids=["aggregates", "folds"])
def test_columns_and_keys_in_another_order_are_refused_or_keep_their_values(
    tmp_path: Path, folds: bool, views: str
) -> None:
    """Values of one type would fit each other's place in the state without a word from Spark."""

    def app(columns: list[str], keys: list[str]) -> kf.App:
        app = kf.App("orders")
        rows = app.stream("rows", kf.rows([]), schema="a string, b string, x int, y int")
        made = {
            c: kf.fold(zero={"v": "0"}, update={"v": f"state.v + {c}"}) if folds else f"sum({c})"
            for c in columns
        }
        rows.by(*keys).table("t", made)
        return app

    pushed = [{"a": "p", "b": "q", "x": 1, "y": 100}]
    with drive(app(["x", "y"], ["a", "b"]), home=tmp_path, views=views) as d:
        d.push("rows", pushed)
    for columns, keys in ((["y", "x"], ["a", "b"]), (["x", "y"], ["b", "a"])):
        try:
            with drive(app(columns, keys), home=tmp_path, views=views) as d:
                d.push("rows", pushed)
                found = d.changes("t")[-1]
        except StateMismatch:
            continue
        assert (found["a"], found["b"]) == ("p", "q")
        assert found["x"] > 1, "the key continues"
        assert found["y"] == 100 * found["x"]


def test_columns_of_spark_mean_what_their_text_does(tmp_path: Path) -> None:
    shared_session()
    from pyspark.sql import functions as F

    def app(n: Any, key: Any, condition: Any) -> kf.App:
        app = kf.App("columns")
        rows = app.stream("rows", kf.rows([]), schema="k string, x int").where(condition)
        rows.by(k=key).table("t", n=n, total="sum(x)")
        return app

    given = app(F.count("*"), F.upper("k"), F.col("x") > 0)
    assert "n      count(*)" in given.describe()
    with drive(given, home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": "A", "x": 2}, {"k": "a", "x": -1}])
        assert d.rows("t") == [{"k": "A", "n": 2, "total": 3}]
    with drive(app("count(*)", "upper(k)", "x > 0"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 4}])
        assert d.rows("t") == [{"k": "A", "n": 3, "total": 7}]
    with (
        pytest.raises(StateMismatch, match="count"),
        drive(app(F.sum("x"), "upper(k)", "x > 0"), home=tmp_path),
    ):
        pass
