"""Descriptions of an app: text, JSON, Mermaid."""

import functools
import json

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.describe.phrases import expr_words, window_words
from keyfold.plan.describe.text import to_dict
from keyfold.plan.nodes import WindowSpec

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
  log         of its own
  at          test_describe.py:1

stream refunds
  source      rows (2)
  schema      region string
  time        arrival
  at          test_describe.py:2

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
  to          files-out: files parquet out
              spark-delta-lake: spark delta lake
  at          test_describe.py:3

table smooth
  from        union of
              - orders
                where amount > 0
                select *, amount * 100 as cents
                transform <function clean at test_describe.py>
              - refunds
  key         region
  columns     n    count(*)
              ema  fold
                   zero    v = 0, w = 1
                   update  v = state.v + x, w = state.w
                   merge   v = state.v, w = other.w
                   result  state.v
  on_error    reject
  at          test_describe.py:4
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
  table_totals_sink_0[/"files-out<br>files parquet out"/]
  table_totals --> table_totals_sink_0
  table_totals_sink_1[/"spark-delta-lake<br>spark delta lake"/]
  table_totals --> table_totals_sink_1
  step_4["transform #60;function clean at test_describe.py#62;"]
  step_3 --> step_4
  step_5["union"]
  step_4 --> step_5
  stream_refunds --> step_5
  table_smooth[("smooth<br>n: count(*)<br>ema: fold")]
  step_5 -->|"by region"| table_smooth
"""


WINDOWS = """\
table per_day
  from        orders
  key         region
  window      sliding 7 days every 1 day, offset 6 hours, zone Europe/Berlin
  columns     n  count(*)
  emit        final
  keep        7 days
  idle        1 minute
  on_error    reject
  at          test_describe.py:2
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
        shown = shown.replace(f"{site}\n", f"test_describe.py:{number}\n")
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
    sinks = [(sink["name"], sink["format"]) for sink in totals["sinks"]]
    assert sinks == [("files-out", "parquet"), ("spark-delta-lake", "delta")]
    assert totals["input"] == [
        {"stream": "orders"},
        {"where": "amount > 0"},
        {"select": [{"name": None, "expression": "*"}, {"name": "cents", "expression": "amount * 100"}]},
    ]
    assert smooth["input"][0]["union"][1] == [{"stream": "refunds"}]
    assert smooth["columns"]["ema"]["fold"]["merge"] == {"v": "state.v", "w": "other.w"}


@pytest.fixture
def windowed():
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="region string, at timestamp", time="at")
    weeks = orders.by("region").sliding("7 days", every="1 day", offset="6 hours", zone="Europe/Berlin")
    weeks.table("per_day", n="count(*)", emit="final", keep="7 days", idle="1 minute")
    orders.by("region").session("pause").table("visits", n="count(*)")
    orders.by("region").last(100).table("newest", n="count(*)")
    return app


def test_the_text_has_windows_in_words_and_how_long_they_stay(windowed):
    shown = without_lines(windowed.describe(), windowed.spec())
    assert WINDOWS in shown
    _, _, _, visits, newest = shown.split("\n\n")
    assert "  window      session pause\n" in visits
    assert "  window      last 100 rows\n" in newest
    assert not any(option in visits + newest for option in ("emit", "keep", "idle"))


def test_the_diagram_has_windows_beside_the_key(windowed):
    drawn = windowed.describe("mermaid")
    week = "sliding 7 days every 1 day, offset 6 hours, zone Europe/Berlin"
    assert f'-->|"by region<br>{week}<br>emit final"| table_per_day\n' in drawn
    assert '-->|"by region<br>session pause"| table_visits\n' in drawn


def test_the_json_says_everything_of_windows(windowed):
    per_day, visits, newest = json.loads(windowed.describe("json"))["tables"]
    nothing = dict.fromkeys(("size", "every", "zone", "rows", "gap")) | {"offset": "0 ms"}
    for table in (per_day, visits, newest):
        assert table["window"].pop("at").startswith("test_describe.py:")
    assert per_day["window"] == nothing | {
        "kind": "sliding",
        "size": "7 days",
        "every": "1 day",
        "offset": "6 hours",
        "zone": "Europe/Berlin",
    }
    assert visits["window"] == nothing | {"kind": "session", "gap": "pause"}
    assert newest["window"] == nothing | {"kind": "last", "rows": 100}
    assert [per_day[name] for name in ("emit", "keep", "idle")] == ["final", "7 days", "1 minute"]
    assert [visits[name] for name in ("emit", "keep", "idle")] == ["changes", None, None]


def test_a_table_without_windows_says_so_in_json(app):
    totals, _ = json.loads(app.describe("json"))["tables"]
    assert [totals[name] for name in ("window", "emit", "keep", "idle")] == [None, "changes", None, None]


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (WindowSpec("tumbling", 60_000), "tumbling 1 minute"),
        (WindowSpec("tumbling", 3_600_000, offset_ms=1_000), "tumbling 1 hour, offset 1 second"),
        (WindowSpec("tumbling", 86_400_000, zone="Asia/Tokyo"), "tumbling 1 day, zone Asia/Tokyo"),
        (WindowSpec("sliding", 3_600_000, 60_000), "sliding 1 hour every 1 minute"),
        (WindowSpec("session", 1_800_000), "session 30 minutes"),
        (WindowSpec("session", gap="pause"), "session pause"),
        (WindowSpec("rolling", 300_000), "rolling 5 minutes"),
        (WindowSpec("rolling", 300_000, 10_000), "rolling 5 minutes every 10 seconds"),
        (WindowSpec("last", rows=100), "last 100 rows"),
        (WindowSpec("last", rows=1), "last 1 row"),
    ],
)
def test_windows_in_words(window, words):
    assert window_words(window) == words


def test_a_gap_that_is_a_function_is_shown_by_name_and_place():
    assert window_words(WindowSpec("session", gap=clean)) == f"session {expr_words(clean)}"


@pytest.mark.parametrize(
    ("given", "text", "data"),
    [
        ({}, "at, late 0 ms\n", "1 day"),
        ({"future": "24 hours"}, "at, late 0 ms\n", "1 day"),
        ({"future": "1 hour"}, "at, late 0 ms, future 1 hour\n", "1 hour"),
        ({"future": 0}, "at, late 0 ms, future 0 ms\n", "0 ms"),
        ({"future": None}, "at, late 0 ms, future any\n", None),
    ],
)
def test_a_bound_of_the_future_is_told_if_it_is_not_the_default(given, text, data):
    app = kf.App("shop")
    app.stream("orders", kf.rows([]), schema="at timestamp", time="at", **given)
    assert f"  time        {text}" in app.describe()
    assert json.loads(app.describe("json"))["streams"][0]["future"] == data


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
    assert expr_words(clean) == f"<function clean at test_describe.py:{line}>"
    assert expr_words(functools.partial(clean, 1)) == expr_words(clean)
    assert expr_words(Callable()).startswith("<function Callable at test_describe.py:")
    assert expr_words(lambda: None).startswith("<function <lambda> at test_describe.py:")
    assert expr_words(len) == "<function len>"
