"""Apps and streams, as they are declared."""

from datetime import timedelta

import pytest

import keyfold as kf
from keyfold.errors import BadApp, BadDuration, BadExpression, BadName, BadOption, NameTaken
from keyfold.plan.nodes import AppSpec, Select, Source, Transform, Union, Where
from keyfold.plan.tree import name_of, sources
from keyfold.plan.validate.arguments import require_tables

SCHEMA = "id string, region string, amount double, at timestamp"


@pytest.fixture
def orders(app):
    return app.stream("orders", kf.rows([]), schema=SCHEMA, time="at", late="10 minutes")


def test_an_app_has_a_name_and_options():
    app = kf.App("shop", every=timedelta(seconds=10), snapshot_every=20, help="  Orders of the shop\n")
    assert app.name == "shop"
    assert app.spec() == AppSpec("shop", 10_000, 20, "Orders of the shop")


@pytest.mark.parametrize(
    "name", ["my shop", "1shop", "", "shop.py", "_shop", "größe", None, 3, "a" * 129, "a\n"]
)
def test_a_name_that_is_no_identifier_is_refused_everywhere(name, app, orders):
    for declare in (
        lambda: kf.App(name),
        lambda: app.stream(name, kf.rows([]), schema=SCHEMA),
        lambda: orders.by("region").table(name, n="count(*)"),
        lambda: orders.by("region").table("totals", {name: "count(*)"}),
        lambda: orders.by(name),
    ):
        with pytest.raises(BadName):
            declare()


def test_a_usable_name_is_proposed():
    with pytest.raises(BadName, match=r"(?s)'my shop' is not allowed as the name of an app.*try: my_shop"):
        kf.App("my shop")


@pytest.mark.parametrize("every", ["1 month", 0, "0 s", 5, "soon"])
def test_a_bad_time_between_batches_is_refused(every):
    with pytest.raises(BadDuration, match="every"):
        kf.App("shop", every=every)


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", True])
def test_a_bad_number_of_batches_between_snapshots_is_refused(count):
    with pytest.raises(BadOption, match="snapshot_every"):
        kf.App("shop", snapshot_every=count)


def test_help_must_be_text():
    with pytest.raises(BadOption, match="help"):
        kf.App("shop", help=3)


def test_an_app_without_tables_can_be_declared_but_not_run(app, orders):
    with pytest.raises(BadApp, match="app 'shop' has no tables"):
        require_tables(app.spec())
    orders.by("region").table("totals", n="count(*)")
    require_tables(app.spec())


def test_a_stream_becomes_a_source(orders):
    assert orders.node == Source("orders", kf.rows([]), SCHEMA, "at", 600_000, "", 86_400_000)
    assert orders.name == "orders"
    assert repr(orders) == "<stream orders of shop>"


def test_a_declaration_knows_the_users_line(orders):
    assert str(orders.node.site).startswith("test_app.py:")
    assert orders.node.site.file == __file__


@pytest.mark.parametrize("source", [None, "data/orders", kf.App("x")])
def test_what_is_no_source_is_refused(app, source):
    with pytest.raises(BadOption, match=r"(?s)source.*kf\.files"):
        app.stream("orders", source, schema=SCHEMA)


@pytest.mark.parametrize("source", [kf.files("x"), kf.rows([]), kf.spark("json", "x"), kf.spark("CSV", "x")])
def test_sources_that_do_not_bring_a_schema_need_one(app, source):
    with pytest.raises(BadOption, match="needs a schema"):
        app.stream("orders", source)


def test_other_spark_sources_may_bring_their_own_schema(app):
    made = app.stream("orders", kf.spark("delta", "x"), time="at", late="1 s")
    assert (made.node.schema, made.node.time) == (None, "at")


def test_rate_has_a_schema_of_its_own(app):
    assert app.stream("ticks", kf.rate()).node.schema == "timestamp timestamp, value bigint"
    assert app.stream("timed", kf.rate(), time="timestamp").node.time == "timestamp"
    with pytest.raises(BadOption, match=r"kf\.rate has its own schema"):
        app.stream("other", kf.rate(), schema="v bigint")


def test_time_must_be_a_column_and_the_nearest_is_suggested(app):
    with pytest.raises(BadOption, match=r"(?s)time must be a column.*time='att'.*did you mean 'at'"):
        app.stream("orders", kf.rows([]), schema=SCHEMA, time="att")
    with pytest.raises(BadOption, match=r"one of: id, region, amount, at"):
        app.stream("orders", kf.rows([]), schema=SCHEMA, time="zzz")
    with pytest.raises(BadOption, match="time must be a column"):
        app.stream("orders", kf.rows([]), schema=SCHEMA, time=3)


def test_time_must_be_a_timestamp(app):
    with pytest.raises(BadOption, match="type timestamp; 'id' is string"):
        app.stream("orders", kf.rows([]), schema=SCHEMA, time="id")


def test_time_is_spelled_as_in_the_schema(app):
    assert app.stream("orders", kf.rows([]), schema=SCHEMA, time="AT").node.time == "at"


def test_late_without_time_is_refused_with_the_reason(app):
    with pytest.raises(BadOption, match="`late` needs time="):
        app.stream("orders", kf.rows([]), schema=SCHEMA, late="1 minute")
    assert app.stream("orders", kf.rows([]), schema=SCHEMA, late="0 s").node.late_ms == 0


def test_a_refused_stream_leaves_its_name_free(app):
    with pytest.raises(BadDuration):
        app.stream("orders", kf.rows([]), schema=SCHEMA, time="at", late="1 year")
    app.stream("orders", kf.rows([]), schema=SCHEMA)


def test_a_name_that_is_taken_is_refused_with_the_line_of_the_first(app, orders):
    first = str(orders.node.site).replace(".", r"\.")
    with pytest.raises(NameTaken, match=f"has the name of a stream that is declared at {first}"):
        app.stream("orders", kf.rows([]), schema=SCHEMA)
    with pytest.raises(NameTaken, match=f"table 'Orders' .* {first} as 'orders': names are case-insensitive"):
        orders.by("region").table("Orders", n="count(*)")
    orders.by("region").table("totals", n="count(*)")
    with pytest.raises(NameTaken, match="has the name of a table"):
        orders.by("id").table("TOTALS", n="count(*)")
    with pytest.raises(NameTaken, match="has the name of a table"):
        app.stream("totals", kf.rows([]), schema=SCHEMA)


def test_two_apps_may_use_the_same_names(orders):
    kf.App("other").stream("orders", kf.rows([]), schema=SCHEMA)


def test_where_select_and_transform_wrap_the_stream(orders):
    def clean(df):
        return df

    made = orders.where("amount > 0").select("*", "id as key", cents="amount * 100").transform(clean)
    assert made.node == Transform(
        Select(
            Where(orders.node, "amount > 0"),
            ((None, "*"), (None, "id as key"), ("cents", "amount * 100")),
        ),
        clean,
    )
    assert made.name == "orders"
    assert sources(made.node) == (orders.node,)


def test_functions_that_return_columns_are_expressions(orders):
    def condition():
        return None

    assert orders.where(condition).node.condition is condition


@pytest.mark.parametrize("bad", ["", "  ", None, 3, True, ["a"], kf.fold(zero={"v": "0"}, update={"v": "1"})])
def test_what_is_no_expression_is_refused(orders, bad):
    for declare in (
        lambda: orders.where(bad),
        lambda: orders.select(bad),
        lambda: orders.select(new=bad),
        lambda: orders.by(key=bad),
    ):
        with pytest.raises(BadExpression):
            declare()


def test_a_spark_column_is_refused_with_the_way_to_write_it(orders):
    class Column:
        def __call__(self):
            raise TypeError("'Column' object is not callable")

    with pytest.raises(BadExpression, match=r"(?s)Spark Column.*lambda"):
        orders.where(Column())


def test_a_function_with_arguments_is_no_expression(orders):
    with pytest.raises(BadExpression, match=r"(?s)called without arguments.*<function .*test_app.py"):
        orders.where(lambda df: df)


@pytest.mark.parametrize("bad", [None, "select", lambda: None, lambda a, b: None])
def test_transform_takes_a_function_of_one_argument(orders, bad):
    with pytest.raises(BadExpression, match="transform"):
        orders.transform(bad)


def test_select_needs_a_column(orders):
    with pytest.raises(BadOption, match="at least one column"):
        orders.select()


def test_new_columns_need_names_of_their_own(orders):
    with pytest.raises(BadName, match="underscore are reserved"):
        orders.select(_new="1")
    with pytest.raises(BadName, match="given twice"):
        orders.select(a="1", A="2")


def test_names_of_arguments_are_free_for_columns(orders):
    assert orders.select(self="1", items="2").node.items == (("self", "1"), ("items", "2"))
    assert orders.by(self="1", columns="2").keys == (("self", "1"), ("columns", "2"))


def test_union_keeps_its_streams_in_order(app, orders):
    more = app.stream("more", kf.rows([]), schema=SCHEMA)
    made = orders.where("true").union(more, orders)
    assert made.node == Union((Where(orders.node, "true"), more.node, orders.node))
    assert sources(made.node) == (orders.node, more.node)
    assert name_of(made.node) == made.name == "orders+more"


def test_union_takes_streams_of_the_same_app_only(orders):
    with pytest.raises(BadOption, match="at least one other"):
        orders.union()
    with pytest.raises(BadOption, match="union takes streams"):
        orders.union("more")
    other = kf.App("other").stream("more", kf.rows([]), schema=SCHEMA)
    with pytest.raises(BadOption, match="'more' belongs to app 'other'"):
        orders.union(other)


def test_declarations_are_frozen(orders):
    table = orders.by("region").table("totals", n="count(*)")
    for declared in (orders, orders.node, orders.by("region"), table, table.spec):
        with pytest.raises(AttributeError):
            declared.name = "other"


def test_a_long_chain_of_steps_is_walked(orders):
    made = orders
    for _ in range(3000):
        made = made.where("true")
    assert made.name == "orders"
    made.by("region").table("totals", n="count(*)")
    for format in ("text", "json", "mermaid"):
        assert "totals" in orders.app.describe(format)


def test_starting_hands_the_plan_to_the_engine(app, orders, monkeypatch):
    import sys
    import types

    calls = []
    fake = types.ModuleType("keyfold.engine.start")
    fake.start = lambda spec, **given: calls.append((spec, given)) or "handle"
    monkeypatch.setitem(sys.modules, "keyfold.engine", types.ModuleType("keyfold.engine"))
    monkeypatch.setitem(sys.modules, "keyfold.engine.start", fake)
    assert app.start(home="x", views="none") == "handle"
    assert calls == [(app.spec(), {"spark": None, "home": "x", "settings": {"views": "none"}})]
