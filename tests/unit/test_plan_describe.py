"""Descriptions of an app: text, JSON, Mermaid."""

import functools
import json

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.describe import to_dict
from keyfold.plan.words import expr_words

TEXT = """\
app shop
  Orders of the shop
  every       10 seconds
  snapshot    every 20 batches

stream orders
  As the shop writes them
  source      files csv data/orders (header=true)
  schema      id string, region string, amount double, at timestamp
  time        at, late 10 minutes
  at          test_plan_describe.py:1

stream refunds
  source      rows (2)
  schema      region string
  time        arrival
  at          test_plan_describe.py:2

table totals
  Totals of a region
  from        orders
              where amount > 0
              select *, amount * 100 as cents
  key         region
              date(at) as day
  columns     orders   count(*)
              revenue  sum(amount)
  ttl         30 days
  partitions  4
  on_error    fail
  to          files parquet out
              spark delta lake
  at          test_plan_describe.py:3

table smooth
  from        union of
              - orders
                where amount > 0
                select *, amount * 100 as cents
                transform <function clean at test_plan_describe.py>
              - refunds
  key         region
  columns     n    count(*)
              ema  fold
                   zero    v = 0, w = 1
                   update  v = state.v + x, w = state.w
                   merge   v = state.v, w = other.w
                   result  state.v
  on_error    reject
  at          test_plan_describe.py:4
"""

MERMAID = """\
flowchart LR
  stream_orders(["orders<br>files csv data/orders (header=true)"])
  stream_refunds(["refunds<br>rows (2)"])
  step_2["where amount #62; 0"]
  stream_orders --> step_2
  step_3["select *, amount * 100 as cents"]
  step_2 --> step_3
  table_totals[("totals<br>orders: count(*)<br>revenue: sum(amount)")]
  step_3 -->|"by region, date(at) as day"| table_totals
  table_totals_sink_0[/"files parquet out"/]
  table_totals --> table_totals_sink_0
  table_totals_sink_1[/"spark delta lake"/]
  table_totals --> table_totals_sink_1
  step_4["transform #60;function clean at test_plan_describe.py#62;"]
  step_3 --> step_4
  step_5["union"]
  step_4 --> step_5
  stream_refunds --> step_5
  table_smooth[("smooth<br>n: count(*)<br>ema: fold")]
  step_5 -->|"by region"| table_smooth
"""


def clean(df):
    return df


@pytest.fixture
def app():
    app = kf.App("shop", every="10 seconds", snapshot_every=20, help="Orders of the shop")
    orders = app.stream(
        "orders",
        kf.files("data/orders", format="csv", header=True),
        schema="id string, region string, amount double, at timestamp",
        time="at",
        late="10 minutes",
        help="As the shop writes them",
    )
    refunds = app.stream("refunds", kf.rows([{"region": "eu"}, {}]), schema="region string")
    paid = orders.where("amount > 0").select("*", cents="amount * 100")
    totals = paid.by("region", day="date(at)").table(
        "totals",
        orders="count(*)",
        revenue="sum(amount)",
        ttl="30 days",
        partitions=4,
        on_error="fail",
        help="Totals of a region",
    )
    totals.to(kf.files("out", format="parquet")).to(kf.spark("delta", "lake"))
    ema = kf.fold(
        zero={"v": "0", "w": "1"},
        update={"v": "state.v + x", "w": "state.w"},
        merge={"v": "state.v", "w": "other.w"},
        result="state.v",
    )
    paid.transform(clean).union(refunds).by("region").table("smooth", n="count(*)", ema=ema)
    return app


def without_lines(shown, spec):
    """The lines of this file change with every edit: numbers them by declaration instead."""
    sites = [declared.site for declared in (*spec.streams, *spec.tables)]
    for number, site in enumerate(sites, 1):
        shown = shown.replace(f"{site}\n", f"test_plan_describe.py:{number}\n")
    return shown.replace(f":{clean.__code__.co_firstlineno}>", ">").replace(
        f":{clean.__code__.co_firstlineno}#62;", "#62;"
    )


def test_the_text_is_an_aligned_tree(app):
    assert without_lines(app.describe(), app.spec()) == TEXT


def test_the_diagram_draws_each_step_once(app):
    assert without_lines(app.describe("mermaid"), app.spec()) == MERMAID


def test_the_json_says_everything(app):
    found = json.loads(app.describe("json"))
    assert found == json.loads(json.dumps(to_dict(app.spec())))
    assert (found["app"], found["every"], found["snapshot_every"]) == ("shop", "10 seconds", 20)
    orders, refunds = found["streams"]
    assert orders["source"] == {
        "kind": "files",
        "format": "csv",
        "path": "data/orders",
        "options": {"header": "true"},
    }
    assert (orders["time"], orders["late"]) == ("at", "10 minutes")
    assert refunds["source"]["rows"] == [{"region": "eu"}, {}]
    totals, smooth = found["tables"]
    assert totals["key"] == {"region": "region", "day": "date(at)"}
    assert totals["columns"] == {"orders": "count(*)", "revenue": "sum(amount)"}
    assert (totals["ttl"], totals["partitions"], totals["on_error"]) == ("30 days", 4, "fail")
    assert [sink["format"] for sink in totals["sinks"]] == ["parquet", "delta"]
    assert totals["input"] == [
        {"stream": "orders"},
        {"where": "amount > 0"},
        {"select": [{"name": None, "expression": "*"}, {"name": "cents", "expression": "amount * 100"}]},
    ]
    assert smooth["input"][0]["union"][1] == [{"stream": "refunds"}]
    assert smooth["columns"]["ema"]["fold"]["merge"] == {"v": "state.v", "w": "other.w"}


def test_an_empty_app_can_be_described():
    app = kf.App("shop")
    assert app.describe() == "app shop\n"
    assert app.describe("mermaid") == "flowchart LR\n"
    assert json.loads(app.describe("json"))["tables"] == []


def test_an_unknown_format_is_refused(app):
    with pytest.raises(BadOption, match=r"text, json, mermaid"):
        app.describe("yaml")


def test_what_mermaid_would_read_as_markup_is_escaped():
    app = kf.App("shop")
    stream = app.stream("end", kf.rows([]), schema="a string")
    stream.where("a <> \"x\" and a like '%]; #`{|}'\n or true").by("a").table("graph", n="count(*)")
    drawn = app.describe("mermaid")
    assert "[\"where a #60;#62; #34;x#34; and a like '%#93;#59; #35;#96;#123;#124;#125;' or true\"]" in drawn
    assert 'stream_end(["end<br>rows (0)"])' in drawn


def test_long_expressions_are_shortened_in_the_diagram_only():
    app = kf.App("shop")
    long = " or ".join(["a = 1"] * 100)
    app.stream("s", kf.rows([]), schema="a int").where(long).by("a").table("t", n="count(*)")
    assert long in app.describe()
    assert long not in app.describe("mermaid")


def test_secrets_are_masked_everywhere():
    app = kf.App("shop")
    source = kf.spark(
        "jdbc",
        url="jdbc:pg://bob:s3cret@host/db",
        password="s3cret",
        **{"fs.s3a.access.key": "s3cret", "kafka.sasl.jaas.config": "s3cret"},
    )
    app.stream("s", source).by("a").table("t", n="count(*)").to(kf.spark("delta", "x://u:s3cret@h/p"))
    for format in ("text", "json", "mermaid"):
        assert "s3cret" not in app.describe(format)
        assert "***" in app.describe(format)


def test_functions_are_shown_by_name_and_place():
    class Callable:
        def __call__(self):
            return None

    line = clean.__code__.co_firstlineno
    assert expr_words(clean) == f"<function clean at test_plan_describe.py:{line}>"
    assert expr_words(functools.partial(clean, 1)) == expr_words(clean)
    assert expr_words(Callable()).startswith("<function Callable at test_plan_describe.py:")
    assert expr_words(lambda: None).startswith("<function <lambda> at test_plan_describe.py:")
    assert expr_words(len) == "<function len>"
