"""Descriptions of joins, enrichment, whole rows, processors and tables of tables: text, JSON, Mermaid."""

import json
import re

import pytest

import keyfold as kf
from keyfold.plan.describe.phrases import expr_words, step_words, top_words
from keyfold.plan.nodes import Changes, Distinct, Enrich, Join, Lookup, LookupJoin, TopSpec
from keyfold.plan.tree import name_of

LOOKUP = """\
lookup regions
  Names of regions
  source      files csv regions.csv
  schema      region string, name string
  refresh     10 minutes
  duplicates  first
  at          LINE
"""

TABLES = """\
table customers
  from        news
  key         customer
  keeps       latest row
  on_error    reject
  at          LINE

table paid
  from        left join on orders.id = payments.order_id, within 1 hour before and 0 ms after, of
              - orders
                distinct id within 1 day, duplicates recorded
              - payments
                where amount > 0
              enrich with customers on customer, inner, wait 1 minute
              enrich with lookup regions on region
  key         region
  columns     total  sum(amount)
  idle        1 minute
  on_error    reject
  at          LINE

table regions_paid
  from        changes of paid
  key         total
  keeps       top 3 by region desc
  columns     region  region
  on_error    reject
  at          LINE

table paid_regions_paid
  from        changes of paid
              select * except (_op)
              enrich with regions_paid on region, total, inner, on update
  key         region
  keeps       latest row
  on_error    reject
  at          LINE

table scores
  from        changes of paid, with the previous row
  key         region
  process     <class Score>, mode append
  output      region string, score double
  on_error    reject
  at          LINE

table sums
  from        changes of paid
  key         region
  columns     s  fold
                 zero     v = 0D
                 update   v = state.v + total
                 retract  v = state.v - total
                 result   state.v
  on_error    reject
  at          LINE
"""

MERMAID = """\
flowchart LR
  stream_orders(["orders<br>rows (0)"])
  stream_payments(["payments<br>rows (0)"])
  stream_news(["news<br>rows (0)"])
  lookup_regions[["regions<br>files csv regions.csv, refresh 10 minutes, first of duplicates"]]
  table_customers[("customers")]
  stream_news -->|"by customer<br>latest row"| table_customers
  step_3["distinct id within 1 day, duplicates recorded"]
  stream_orders --> step_3
  step_4["where amount #62; 0"]
  stream_payments --> step_4
  step_5["left join on orders.id = payments.order_id, within 1 hour before and 0 ms after"]
  step_3 --> step_5
  step_4 --> step_5
  step_6["enrich with customers on customer, inner, wait 1 minute"]
  step_5 --> step_6
  table_customers --> step_6
  step_7["enrich with lookup regions on region"]
  step_6 --> step_7
  lookup_regions --> step_7
  table_paid[("paid<br>total: sum(amount)")]
  step_7 -->|"by region"| table_paid
  step_8["changes of paid"]
  table_paid --> step_8
  table_regions_paid[("regions_paid<br>region: region")]
  step_8 -->|"by total<br>top 3 by region desc"| table_regions_paid
  step_9["changes of paid"]
  table_paid --> step_9
  step_10["select * except (_op)"]
  step_9 --> step_10
  step_11["enrich with regions_paid on region, total, inner, on update"]
  step_10 --> step_11
  table_regions_paid --> step_11
  table_paid_regions_paid[("paid_regions_paid")]
  step_11 -->|"by region<br>latest row"| table_paid_regions_paid
  step_12["changes of paid, with the previous row"]
  table_paid --> step_12
  table_scores[("scores")]
  step_12 -->|"by region<br>process #60;class Score#62;, mode append"| table_scores
  step_13["changes of paid"]
  table_paid --> step_13
  table_sums[("sums<br>s: fold")]
  step_13 -->|"by region"| table_sums
"""


class Score:
    def __init__(self):
        self.seen = 0


def without_lines(text):
    return re.sub(r"(?m)^(  at          )test_describe_joins\.py:\d+$", r"\1LINE", text)


@pytest.fixture
def app():
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), "id string, customer string, at timestamp", time="at")
    schema = "order_id string, region string, amount double, at timestamp"
    payments = app.stream("payments", kf.rows([]), schema, time="at")
    news = app.stream("news", kf.rows([]), "customer string, city string")
    customers = news.by("customer").latest().table("customers")
    regions = kf.lookup(
        "regions",
        kf.files("regions.csv", format="csv"),
        "region string, name string",
        refresh="10 minutes",
        duplicates="first",
        help="Names of regions",
    )
    joined = orders.distinct("id", within="1 day", record_duplicates=True).join(
        payments.where("amount > 0"), on="orders.id = payments.order_id", within=("1 hour", 0), how="left"
    )
    enriched = joined.enrich(customers, how="inner", wait="1 minute").enrich(regions, on="region")
    paid = enriched.by("region").table("paid", total="sum(amount)", idle="1 minute")
    ranked = paid.changes().by("total").top(3, by="region desc").table("regions_paid", region="region")
    paid.join_table(ranked, on=["region", "total"])
    scores = paid.changes(previous=True).by("region")
    scores.process("scores", Score, output="region string, score double", mode="append")
    fold = kf.fold(zero={"v": "0D"}, update={"v": "state.v + total"}, retract={"v": "state.v - total"})
    paid.changes().by("region").table("sums", s=fold)
    return app


def test_the_text_has_every_step(app):
    shown = without_lines(app.describe())
    assert shown.endswith(f"{LOOKUP}\n{TABLES}")


def test_the_diagram_has_arrows_from_tables_and_lookups(app):
    assert without_lines(app.describe("mermaid")) == MERMAID


def test_every_end_of_an_arrow_is_drawn(app):
    drawn = app.describe("mermaid").splitlines()[1:]
    nodes = {re.match(r"  (\w+)[\[(]", line)[1] for line in drawn if "-->" not in line}
    arrows = [re.match(r"  (\w+) -->(?:\|.*\|)? (\w+)$", line).groups() for line in drawn if "-->" in line]
    assert nodes == {end for arrow in arrows for end in arrow}


def test_the_json_says_everything(app):
    found = json.loads(app.describe("json"))
    (lookup,) = found["lookups"]
    assert lookup.pop("at").startswith("test_describe_joins.py:")
    assert lookup == {
        "name": "regions",
        "help": "Names of regions",
        "source": {"kind": "files", "format": "csv", "path": "regions.csv"},
        "schema": "region string, name string",
        "refresh": "10 minutes",
        "duplicates": "first",
    }
    customers, paid, ranked, both, scores, sums = found["tables"]
    assert customers["top"] == {"n": 1, "by": None}
    assert paid["input"] == [
        {
            "join": {
                "left": [
                    {"stream": "orders"},
                    {"distinct": {"columns": ["id"], "within": "1 day", "record_duplicates": True}},
                ],
                "right": [{"stream": "payments"}, {"where": "amount > 0"}],
                "on": "orders.id = payments.order_id",
                "before": "1 hour",
                "after": "0 ms",
                "how": "left",
            }
        },
        {
            "enrich": {
                "table": "customers",
                "on": ["customer"],
                "how": "inner",
                "wait": "1 minute",
                "as_of": "arrival",
                "on_update": False,
                "keep": None,
            }
        },
        {"lookup": {"name": "regions", "on": ["region"], "how": "left"}},
    ]
    assert (ranked["top"], paid["top"]) == ({"n": 3, "by": "region desc"}, None)
    assert both["input"][0] == {"changes": {"table": "paid", "previous": False}}
    assert both["input"][2]["enrich"]["on_update"]
    assert scores["input"] == [{"changes": {"table": "paid", "previous": True}}]
    assert scores["process"] == {
        "processor": expr_words(Score),
        "output": "region string, score double",
        "mode": "append",
        "initial": None,
    }
    assert sums["columns"]["s"]["fold"]["retract"] == {"v": "state.v - total"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda n: Join(n, n, ("a", "b"), None, 0, 0), "inner join on a, b, within 0 ms"),
        (
            lambda n: Join(n, n, ("a",), None, 0, 1_000),
            "inner join on a, within 0 ms before and 1 second after",
        ),
        (lambda n: Enrich(n, "t", ("a",)), "enrich with t on a"),
        (
            lambda n: Enrich(n, "t", ("a",), wait_ms=0, as_of="event"),
            "enrich with t on a, wait 0 ms, as of event time",
        ),
        (
            lambda n: Enrich(n, "t", ("a",), on_update=True, keep_ms=1_000),
            "enrich with t on a, on update, keep 1 second",
        ),
        (
            lambda n: LookupJoin(n, Lookup("l", kf.rows([]), "a int"), ("a",), "inner"),
            "enrich with lookup l on a, inner",
        ),
        (lambda n: Distinct(n, ("a", "b"), 1_000), "distinct a, b within 1 second"),
        (lambda n: Changes("s"), "changes of s"),
    ],
)
def test_steps_in_words(make, words):
    node = make(kf.App("shop").stream("s", kf.rows([]), "a int").node)
    assert step_words(node) == words
    assert name_of(node) == "s"


def test_ranks_in_words():
    assert top_words(TopSpec()) == "latest row"
    assert top_words(TopSpec(3, "a desc, b")) == "top 3 by a desc, b"


def test_secrets_of_lookups_are_masked():
    app = kf.App("shop")
    source = kf.spark("jdbc", url="jdbc:pg://bob:s3cret@host/db", password="s3cret")
    lookup = kf.lookup("codes", source, "a int, b int")
    app.stream("s", kf.rows([]), "a int").enrich(lookup, on="a").by("a").table("t", n="count(*)")
    for format in ("text", "json", "mermaid"):
        assert "s3cret" not in app.describe(format)
        assert "***" in app.describe(format)
