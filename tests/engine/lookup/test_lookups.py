"""Static sides: what rows get of a lookup, how it is reloaded, and what is wrong with one."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold as kf
from keyfold.engine.compile.table import compile_app
from keyfold.engine.polling import wait_until
from keyfold.errors import BadExpression, BadOption, QueryError, StateMismatch
from keyfold.testing import Driver, drive, shared_session
from tests.engine.models.strategies import plans

pytestmark = pytest.mark.jvm

PRICES = [{"sku": "a", "price": 1.5}, {"sku": "b", "price": 2.0}]
SCHEMA = "sku string, price double"


def shop(
    lookup: Any, how: Any = "left", schema: str = "id int, sku string, n int", on: Any = "sku", **columns: str
) -> kf.App:
    """Orders with what the lookup has for them, a row per order."""
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema=schema)
    wanted = columns or {"price": "max(price)"}
    orders.enrich(lookup, on=on, how=how).by("id").table("priced", dict(wanted))
    return app


def compiled(app: kf.App, place: Path) -> list[Any]:
    return compile_app(shared_session(), app.spec(), {"orders": place})


def put(path: Path, text: str) -> None:
    """Replaces a file as a whole."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(text, "utf-8")
    os.replace(aside, path)


def csv_prices(path: Path, **options: Any) -> Any:
    return kf.lookup("prices", kf.files(path, format="csv"), schema=SCHEMA, **options)


def priced(d: Driver, *orders: tuple[int, str | None]) -> dict[int, Any]:
    d.push("orders", [{"id": i, "sku": sku, "n": 1} for i, sku in orders])
    return {row["id"]: row["price"] for row in d.rows("priced")}


def test_rows_get_the_lookups_columns_and_stay_without_a_match() -> None:
    with drive(shop(kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA))) as d:
        assert priced(d, (1, "a"), (2, "b"), (3, "z"), (4, None)) == {1: 1.5, 2: 2.0, 3: None, 4: None}
        d.crash()
        assert priced(d, (5, "a"))[5] == 1.5


def test_an_inner_lookup_leaves_out_rows_without_a_match_and_rejects_none() -> None:
    with drive(shop(kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA), "inner")) as d:
        assert priced(d, (1, "a"), (2, "z"), (3, None)) == {1: 1.5}
        assert d.rejected("orders") == []


def test_rejected_rows_go_past_the_lookup_and_come_with_their_text() -> None:
    with drive(shop(kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA), "inner")) as d:
        d.push("orders", ["{broken", {"id": None, "sku": "a"}])
        found = {r["reason"]: r for r in d.rejected("orders")}
        assert found.keys() == {"does not parse", "key id is null"}
        assert {r["stream"] for r in found.values()} == {"orders"}
        assert found["does not parse"]["raw"] == "{broken"


def test_a_column_that_both_have_is_called_after_the_lookup() -> None:
    stock = kf.lookup("stock", kf.rows([{"sku": "a", "n": 7}]), schema="sku string, n int")
    with drive(shop(stock, n="max(n)", left="max(stock_n)")) as d:
        d.push("orders", [{"id": 1, "sku": "a", "n": 2}])
        assert d.rows("priced") == [{"id": 1, "n": 2, "left": 7}]


def test_a_column_that_clashes_even_then_is_refused(tmp_path: Path) -> None:
    stock = kf.lookup("stock", kf.rows([]), schema="sku string, n int")
    app = shop(stock, schema="id int, sku string, n int, stock_n int", n="max(n)")
    with pytest.raises(BadOption, match="can't be called stock_n: the stream has a column of that name"):
        compiled(app, tmp_path)


def test_keys_of_several_columns_and_two_uses_by_other_columns() -> None:
    rows = [{"sku": s, "region": r, "price": p} for s, r, p in (("a", "eu", 1.0), ("b", "us", 2.0))]
    prices = kf.lookup("prices", kf.rows(rows), schema="sku string, region string, price double")
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="id int, sku string, region string")
    orders.enrich(prices, on=["sku", "region"]).by("id").table("both", price="max(price)")
    orders.enrich(prices, on="sku").by("id").table("one", price="max(price)", other="max(prices_region)")
    with drive(app) as d:
        d.push("orders", [{"id": 1, "sku": "a", "region": "eu"}, {"id": 2, "sku": "b", "region": "eu"}])
        assert [r["price"] for r in d.rows("both")] == [1.0, None]
        assert [(r["price"], r["other"]) for r in d.rows("one")] == [(1.0, "eu"), (2.0, "us")]
        assert d.handle.status()["lookups"]["prices"]["version"] == 1


@pytest.mark.parametrize(
    ("kind", "keys", "asked"),
    [
        ("double", [0.0, 1.5], {-0.0: "x", 1.5: "y", 2.0: None}),
        ("bigint", [1, 2**60], {1: "x", 2**60: "y", 3: None}),
        ("timestamp", ["2026-01-01T00:00:00Z"], {"2026-01-01T01:00:00+01:00": "x"}),
        ("decimal(10,2)", ["1.10"], {"1.1": "x"}),
    ],
)
def test_keys_are_equal_as_spark_has_it(kind: str, keys: list[Any], asked: dict[Any, Any]) -> None:
    rows = [{"k": k, "v": v} for k, v in zip(keys, "xyz", strict=False)]
    lookup = kf.lookup("names", kf.rows(rows), schema=f"k {kind}, v string")
    with drive(shop(lookup, schema=f"id int, k {kind}", on="k", v="max(v)")) as d:
        d.push("orders", [{"id": i, "k": k} for i, k in enumerate(asked)])
        assert [r["v"] for r in d.rows("priced")] == list(asked.values())


def test_windows_and_late_rows_of_a_stream_with_a_lookup() -> None:
    app = kf.App("shop")
    schema = "sku string, at timestamp"
    orders = app.stream("orders", kf.rows([]), schema=schema, time="at")
    prices = kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA)
    enriched = orders.enrich(prices, on="sku").where("price > 1")
    enriched.by("sku").tumbling("1 minute").table("per_minute", total="sum(price)", emit="final")
    with drive(app) as d:
        d.push("orders", [{"sku": "a", "at": f"2026-01-01T00:0{m}:00Z"} for m in (0, 0, 5)])
        d.push("orders", [{"sku": "a", "at": "2026-01-01T00:00:30Z"}])
        assert [(r["sku"], r["total"]) for r in d.rows("per_minute")] == [("a", 3.0)]
        assert [json.loads(r["raw"])["price"] for r in d.late("per_minute")] == [1.5]


def test_a_reload_is_seen_by_the_next_batch_and_not_by_rows_before(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    put(file, "sku,price\na,1\n")
    with drive(shop(csv_prices(file))) as d:
        first = d.handle.status()["lookups"]["prices"]
        assert priced(d, (1, "a"), (2, "b")) == {1: 1.0, 2: None}
        put(file, "sku,price\na,10\nb,20\n")
        assert priced(d, (3, "a"))[3] == 1.0
        found = d.handle.refresh("prices")
        assert (found["rows"], found["version"], found["error"]) == (2, 2, None)
        assert isinstance(found["loaded"], datetime)
        assert found["loaded"] > first["loaded"]
        assert priced(d, (4, "a"), (5, "b")) == {1: 1.0, 2: None, 3: 1.0, 4: 10.0, 5: 20.0}


def test_what_has_not_changed_stays_the_same_version_whatever_its_order(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    put(file, "sku,price\na,1\nb,2\n")
    with drive(shop(csv_prices(file))) as d:
        before = d.handle.status()["lookups"]["prices"]
        put(file, "sku,price\nb,2\na,1\n")
        assert d.handle.refresh("prices") == before


def test_a_lookup_with_refresh_is_read_again_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    put(file, "sku,price\na,1\n")
    with drive(shop(csv_prices(file, refresh="100 milliseconds"))) as d:
        put(file, "sku,price\na,2\n")
        assert wait_until(lambda: d.handle.status()["lookups"]["prices"]["version"] == 2, 60)
        assert priced(d, (1, "a")) == {1: 2.0}
        thread = d.handle._lookups._thread
        assert thread.is_alive()
        d.handle.stop()
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read: "),
        ("", "the file is missing or empty"),
        ("sku,price\n", "has no rows any more"),
        ("sku,cost\na,5\n", "header"),
        ("sku\na\n", "header"),
        ("sku,price\na,cheap\n", "Malformed"),
        ("sku,price\na,5\na,6\n", "several rows"),
        ("sku,price\n,5\n", "no row of lookup prices has a key"),
    ],
)
def test_a_broken_reload_keeps_the_last_good_version_and_says_so_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    file = tmp_path / "prices.csv"
    put(file, "sku,price\na,1\n")
    with drive(shop(csv_prices(file))) as d:
        file.unlink() if text is None else put(file, text)
        found = d.handle.refresh("prices")
        assert said in found["error"]
        assert "where: lookup prices, test_lookups.py:" in found["error"]
        assert d.handle.refresh("prices") == found
        assert (found["rows"], found["version"]) == (1, 1)
        assert priced(d, (1, "a")) == {1: 1.0}
        printed = capfd.readouterr().err
        assert said in printed
        assert printed.count("version 1 stays in use") == 1
        put(file, "sku,price\na,3\n")
        assert d.handle.refresh("prices")["error"] is None
        assert "can be read again" in capfd.readouterr().err
        assert priced(d, (2, "a")) == {1: 1.0, 2: 3.0}


@pytest.mark.parametrize("text", ["sku,cost\na,5\n", "sku,price\na,cheap\n", "", None])
def test_an_app_does_not_start_with_a_lookup_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "prices.csv"
    if text is not None:
        put(file, text)
    with (
        pytest.raises(BadOption, match="lookup prices can't be read") as caught,
        drive(shop(csv_prices(file))),
    ):
        pass
    assert "where: lookup prices, test_lookups.py:" in str(caught.value)
    assert str(file) in str(caught.value)


def test_keys_with_several_rows_are_named_three_of_them(tmp_path: Path) -> None:
    rows = [{"sku": s, "price": p} for s in "abcdef" for p in (1.0, 2.0)] + [{"sku": "single", "price": 1.0}]
    with (
        pytest.raises(BadOption, match="keys with several rows") as caught,
        drive(shop(kf.lookup("prices", kf.rows(rows), schema=SCHEMA))),
    ):
        pass
    assert caught.value.given == "sku a; sku b; sku c"


@pytest.mark.parametrize(("which", "price"), [("first", 1.0), ("last", 4.0)])
def test_of_several_rows_of_a_key_the_first_or_last_by_file_and_line(
    tmp_path: Path, which: Any, price: float
) -> None:
    # The larger file is read first by Spark.
    put(tmp_path / "1.csv", "sku,price\na,1\na,2\n")
    put(tmp_path / "2.csv", "sku,price\n" + "".join(f"x{n},0\n" for n in range(500)) + "a,3\na,4\n")
    with drive(shop(csv_prices(tmp_path, duplicates=which))) as d:
        assert priced(d, (1, "a")) == {1: price}


def test_json_and_parquet_files_and_other_formats_of_sparks(tmp_path: Path) -> None:
    put(tmp_path / "p.json", '{"sku": "a", "price": 1.0}\n')
    shared_session().createDataFrame([("a", 2.0, 0)], "sku string, price double, more int").write.parquet(
        str(tmp_path / "p.parquet")
    )
    shared_session().createDataFrame([("a", 3.0)], SCHEMA).write.orc(str(tmp_path / "p.orc"))
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="id int, sku string")
    sources = {
        "json": kf.files(tmp_path / "p.json"),
        "parquet": kf.files(tmp_path / "p.parquet", format="parquet"),
        "orc": kf.spark("orc", tmp_path / "p.orc"),
    }
    for name, source in sources.items():
        lookup = kf.lookup(f"from_{name}", source, schema=SCHEMA)
        orders.enrich(lookup, on="sku").by("id").table(f"t_{name}", price="max(price)")
    with drive(app) as d:
        d.push("orders", [{"id": 1, "sku": "a"}])
        assert [d.rows(f"t_{name}")[0]["price"] for name in sources] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("columns", "said"), [("sku string, cost double", "no such column"), ("sku string, price int", "int")]
)
def test_parquet_of_another_schema_is_refused_with_both(tmp_path: Path, columns: str, said: str) -> None:
    path = tmp_path / "p.parquet"
    shared_session().createDataFrame([], columns).write.parquet(str(path))
    lookup = kf.lookup("prices", kf.files(path, format="parquet"), schema=SCHEMA)
    with (
        pytest.raises(BadOption, match=f"price is declared as double, and the source has {said}"),
        drive(shop(lookup)),
    ):
        pass


def test_json_of_another_schema_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "p.json", '{"article": "a", "price": 1.0}\n')
    with (
        pytest.raises(BadOption, match="columns seem to differ from the schema"),
        drive(shop(kf.lookup("prices", kf.files(tmp_path / "p.json"), schema=SCHEMA))),
    ):
        pass


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("sku int, price double", "sku is string in the stream and int in lookup prices"),
        ("sku strin, price double", "column 'sku' has an unknown type 'strin'"),
        ("sku map<string,int>, price double", "sku is string in the stream and map<string,int>"),
    ],
)
def test_keys_that_do_not_fit_are_refused_without_reading_anything(
    tmp_path: Path, schema: str, said: str
) -> None:
    with pytest.raises((BadExpression, BadOption), match=said) as caught:
        compiled(shop(kf.lookup("prices", kf.files("/nowhere"), schema=schema)), tmp_path)
    assert "test_lookups.py:" in str(caught.value)


def test_compiling_alone_reads_no_lookup(tmp_path: Path) -> None:
    app = shop(kf.lookup("prices", kf.files("/nowhere"), schema=SCHEMA))
    assert [t.spec.name for t in compiled(app, tmp_path)] == ["priced"]


def test_a_key_that_a_transform_left_out_is_refused(tmp_path: Path) -> None:
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="id int, sku string").transform(
        lambda df: df.drop("sku")
    )
    prices = kf.lookup("prices", kf.rows([]), schema=SCHEMA)
    orders.enrich(prices, on="sku").by("id").table("t", price="max(price)")
    with pytest.raises(BadExpression, match="the stream has no column sku"):
        compiled(app, tmp_path)


def test_content_and_path_may_change_between_starts_and_columns_may_not(tmp_path: Path) -> None:
    with drive(shop(kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA)), home=tmp_path) as d:
        assert priced(d, (1, "a")) == {1: 1.5}
    file = tmp_path / "prices.csv"
    put(file, "sku,price\na,9\n")
    with drive(shop(csv_prices(file)), home=tmp_path) as d:
        assert priced(d, (2, "a")) == {1: 1.5, 2: 9.0}
    other = kf.lookup("prices", kf.rows([]), schema="sku string, price double, tax double")
    with pytest.raises(StateMismatch, match="lookup prices"), drive(shop(other), home=tmp_path):
        pass


def test_the_status_of_lookups_is_there_for_other_processes(tmp_path: Path) -> None:
    with drive(shop(kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA)), home=tmp_path) as d:
        priced(d, (1, "a"))
    written = json.loads((tmp_path / "shop" / "status.json").read_text())["lookups"]["prices"]
    assert (written["rows"], written["version"], written["error"]) == (2, 1, None)
    assert datetime.fromisoformat(written["loaded"]).tzinfo is not None


def test_a_lookup_that_is_not_there_cannot_be_refreshed() -> None:
    with drive(shop(kf.lookup("prices", kf.rows(PRICES), schema=SCHEMA))) as d:
        with pytest.raises(QueryError, match="no lookup price") as caught:
            d.handle.refresh("price")
        assert caught.value.hint == "did you mean 'prices'?"


class Model:
    """What rows get, from a dict that is replaced now and then."""

    def __init__(self, how: str) -> None:
        self.how, self.rows = how, dict[int, int | None]()
        self.file, self.prices = dict[str, int](), dict[str, int]()

    def start(self) -> None:
        self.prices = self.file

    def reload(self) -> bool:
        """Whether the file is taken: one that has lost all its rows is not."""
        taken = bool(self.file or not self.prices)
        self.prices = self.file if taken else self.prices
        return taken

    def order(self, number: int, sku: str | None) -> None:
        found = None if sku is None else self.prices.get(sku)
        if found is not None or self.how == "left":
            self.rows[number] = found


SKUS = st.sampled_from("abcd")
CONTENT = st.dictionaries(SKUS, st.integers(0, 9))
STEPS = st.lists(
    st.one_of(
        st.lists(st.one_of(st.none(), SKUS), min_size=1, max_size=6),
        CONTENT,
        st.sampled_from(["restart", "crash", "broken"]),
    ),
    min_size=3,
    max_size=8,
)


@pytest.mark.parametrize("how", ["left", "inner"])
@plans(6)
@given(first=CONTENT, steps=STEPS)
def test_rows_meet_the_version_that_was_newest_when_their_batch_began(
    tmp_path_factory: pytest.TempPathFactory, how: str, first: dict[str, int], steps: list[Any]
) -> None:
    file = tmp_path_factory.mktemp("lookup") / "prices.csv"
    model, number = Model(how), 0

    def write(content: dict[str, int]) -> None:
        put(file, "sku,price\n" + "".join(f"{k},{v}\n" for k, v in content.items()))
        model.file = content

    write(first)
    model.start()
    with drive(shop(csv_prices(file), how)) as d:
        for step in steps:
            if isinstance(step, dict):
                write(step)
                assert (d.handle.refresh("prices")["error"] is None) == model.reload()
            elif step == "broken":
                good = file.read_text()
                put(file, "other,names\n1,2\n")
                assert d.handle.refresh("prices")["error"]
                put(file, good)
            elif isinstance(step, str):
                getattr(d, step)()
                model.start()
            else:
                orders = [(number + i, sku) for i, sku in enumerate(step)]
                number += len(orders)
                for order in orders:
                    model.order(*order)
                assert priced(d, *orders) == model.rows
