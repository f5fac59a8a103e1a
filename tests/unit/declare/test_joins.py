"""Joins of streams, and distinct, as they are declared."""

from datetime import timedelta

import pytest

import keyfold as kf
from keyfold.errors import BadDuration, BadExpression, BadName, BadOption
from keyfold.plan.nodes import Distinct, Join
from keyfold.plan.tree import name_of, sources, steps

HOUR = 3_600_000
LINE = r"test_joins\.py:\d+"


@pytest.fixture
def orders(app):
    return app.stream("orders", kf.rows([]), "id string, day date, at timestamp", time="at", late="1 minute")


@pytest.fixture
def payments(app):
    return app.stream(
        "payments", kf.rows([]), "id string, order_id string, day date, at timestamp", time="at"
    )


@pytest.fixture
def untimed(app):
    return app.stream("clicks", kf.rows([]), "id string, day date")


def test_a_join_is_its_streams_columns_bound_and_kind(orders, payments):
    made = orders.where("true").join(payments, on=["id", "day"], within="1 hour", how="left")
    assert made.node == Join(
        orders.where("true").node, payments.node, ("id", "day"), None, HOUR, HOUR, "left"
    )
    assert str(made.node.site).startswith("test_joins.py:")
    assert made.name == name_of(made.node) == "orders+payments"
    assert sources(made.node) == (orders.node, payments.node)
    assert steps(made.where("true").node)[0] is made.node
    assert repr(made) == "<stream orders+payments of shop>"


@pytest.mark.parametrize(
    ("within", "before", "after"),
    [
        ("1 hour", HOUR, HOUR),
        (timedelta(hours=1), HOUR, HOUR),
        (("1 hour", 0), HOUR, 0),
        (["0 s", timedelta(seconds=1)], 0, 1_000),
        (0, 0, 0),
    ],
)
def test_a_bound_is_a_length_or_two(orders, payments, within, before, after):
    node = orders.join(payments, on="id", within=within).node
    assert (node.before_ms, node.after_ms) == (before, after)


def test_a_join_without_bound_is_refused_with_what_to_add(orders, payments):
    with pytest.raises(
        BadOption, match=rf"(?s)needs within=.*where: shop\.orders, {LINE}.*try: within=\"1 hour\""
    ):
        orders.join(payments, on="id")


@pytest.mark.parametrize("within", ["-1 hour", ("1 hour", "-1 s"), timedelta(-1), 5, "soon", ("1 hour", 5)])
def test_a_bound_that_is_no_length_is_refused(orders, payments, within):
    with pytest.raises(BadDuration, match=rf"(?s)within.*where: shop\.orders, {LINE}"):
        orders.join(payments, on="id", within=within)


@pytest.mark.parametrize("within", [(), ("1 hour",), ("1 hour", "1 hour", "1 hour"), []])
def test_a_bound_of_another_number_of_lengths_is_refused(orders, payments, within):
    with pytest.raises(BadOption, match=r"(?s)one duration, or two.*given: within="):
        orders.join(payments, on="id", within=within)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
def test_every_kind_of_join_can_be_declared(orders, payments, how):
    assert orders.join(payments, on="id", within=0, how=how).node.how == how


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ("lefft", "did you mean 'left'"),
        ("outer", "how='full'"),
        ("FULL OUTER", "how='full'"),
        ("left_outer", "how='left'"),
        ("leftanti", "how='left_anti'"),
        ("semi", "how='left_semi'"),
        ("LEFT", "how='left'"),
    ],
)
def test_an_unknown_kind_of_join_is_refused_and_the_right_one_suggested(orders, payments, how, hint):
    with pytest.raises(BadOption, match=rf"(?s)how must be one of: inner, left, right, full.*{hint}"):
        orders.join(payments, on="id", within=0, how=how)


@pytest.mark.parametrize("how", [None, 3, ["left"]])
def test_a_kind_of_join_that_is_no_text_is_refused(orders, payments, how):
    with pytest.raises(BadOption, match="how must be one of"):
        orders.join(payments, on="id", within=0, how=how)


def test_a_condition_is_no_column(orders, payments):
    text = "orders.id = payments.order_id"
    made = orders.join(payments, on=text, within=0).node
    assert (made.on, made.condition) == ((), text)

    def condition():
        return None

    assert orders.join(payments, on=condition, within=0).node.condition is condition
    with pytest.raises(BadExpression, match="on is called without arguments"):
        orders.join(payments, on=lambda df: df, within=0)


@pytest.mark.parametrize("on", ["", "  "])
def test_a_join_on_nothing_is_refused(orders, payments, on):
    with pytest.raises(BadOption, match=r"(?s)on is empty.*try: on="):
        orders.join(payments, on=on, within=0)


def test_a_join_on_no_columns_is_refused(orders, payments):
    with pytest.raises(BadOption, match="on needs at least one column"):
        orders.join(payments, on=[], within=0)


@pytest.mark.parametrize("on", [3, True, {"id": "order_id"}])
def test_what_is_no_column_nor_condition_is_refused(orders, payments, on):
    with pytest.raises(BadOption, match=r"(?s)on must be the name of a column, or a list"):
        orders.join(payments, on=on, within=0)


def test_a_list_in_one_text_is_refused_with_the_list(orders, payments):
    with pytest.raises(BadOption, match=r"try: on=\['id', 'day'\]"):
        orders.join(payments, on="id, day", within=0)


@pytest.mark.parametrize("on", [["id", "id"], ["id", "ID"]])
def test_a_column_given_twice_is_refused(orders, payments, on):
    with pytest.raises(BadName, match=r"column of on .* is given twice"):
        orders.join(payments, on=on, within=0)


def test_an_expression_among_columns_is_made_a_column_first(orders, payments):
    with pytest.raises(
        BadName, match=r"try: make it a column first: \.select\(\"\*\", lower_id='lower\(id\)'\)"
    ):
        orders.join(payments, on=["lower(id)"], within=0)
    with pytest.raises(BadName, match="must be a string"):
        orders.join(payments, on=[3], within=0)


def test_a_column_that_one_of_the_streams_lacks_is_refused_and_the_nearest_suggested(orders, payments):
    with pytest.raises(BadOption, match=r"(?s)on names 'dayy', .* stream 'orders'.*did you mean 'day'"):
        orders.join(payments, on="dayy", within=0)
    with pytest.raises(BadOption, match=r"(?s)on names 'order_id', which is not a column of stream 'orders'"):
        orders.where("true").join(payments, on="order_id", within=0)
    with pytest.raises(BadOption, match=r"(?s)not a column of stream 'orders'.*one of: id, day, at"):
        payments.join(orders, on="order_id", within=0)


def test_columns_that_only_spark_knows_are_left_to_spark(app, orders):
    made = orders.select("*", key="upper(id)")
    own = app.stream("lake", kf.spark("delta", "lake"), time="at")
    assert made.join(own, on="key", within=0).node.on == ("key",)


def test_case_makes_no_difference_between_columns(orders, payments):
    assert orders.join(payments, on="ID", within=0).node.on == ("ID",)


def test_both_streams_need_event_time_and_the_one_without_is_named(orders, untimed):
    needs = rf"(?s)a join of streams needs event time: stream 'clicks' at {LINE} has none.*try: time="
    for declare in (
        lambda: orders.join(untimed, on="id", within="1 hour"),
        lambda: untimed.join(orders, on="id", within="1 hour"),
        lambda: orders.join(untimed.union(orders), on="id", within="1 hour"),
        lambda: orders.join(untimed.where("true").select("*"), on="id", within="1 hour"),
    ):
        with pytest.raises(BadOption, match=needs):
            declare()


def test_changes_of_a_table_have_no_event_time(orders, payments):
    totals = orders.by("id").table("totals", n="count(*)")
    with pytest.raises(
        BadOption, match=rf"(?s)changes of table 'totals' at {LINE} have none.*feeds 'totals'"
    ):
        payments.join(totals.changes(previous=True), on="id", within=0)


def test_a_join_has_the_event_time_of_its_streams(orders, payments):
    joined = orders.join(payments, on="id", within=0)
    again = joined.distinct("id", within="1 day").join(orders, on="id", within=0)
    customers = payments.by("id").latest().table("customers")
    windowed = again.enrich(customers, on="id").by("id").tumbling("1 hour")
    assert windowed.window.kind == "tumbling"
    assert again.name == "orders+payments"


def test_a_stream_can_be_joined_with_itself(orders):
    made = orders.join(orders, on="id", within="1 minute")
    assert made.node.left is made.node.right is orders.node
    assert made.name == "orders"


def test_only_streams_of_the_same_app_can_be_joined(orders):
    other = kf.App("other").stream("payments", kf.rows([]), "id string, at timestamp", time="at")
    with pytest.raises(
        BadOption,
        match=r"(?s)join takes streams of the same app, and 'payments' belongs to app 'other'.*"
        r"in app 'shop' as well",
    ):
        orders.join(other, on="id", within=0)
    for bad in (None, "payments", kf.rows([])):
        with pytest.raises(BadOption, match="join takes streams"):
            orders.join(bad, on="id", within=0)


def test_a_table_in_the_place_of_a_stream_is_refused_with_what_there_is_instead(orders):
    totals = orders.by("id").table("totals", n="count(*)")
    with pytest.raises(BadOption, match=r"(?s)takes streams.*try: enrich\(totals"):
        orders.join(totals, on="id", within=0)
    with pytest.raises(BadOption, match=r"(?s)takes streams.*totals\.changes\(\), or enrich\(totals"):
        orders.union(totals)


def test_idle_is_for_tables_of_joins_too(orders, payments):
    joined = orders.join(payments, on="id", within=0).select("id")
    assert joined.by("id").table("paid", n="count(*)", idle="1 minute").spec.idle_ms == 60_000
    with pytest.raises(
        BadOption, match=r"(?s)`idle` needs windows that close.*joins of streams take idle= too"
    ):
        orders.by("id").table("seen", n="count(*)", idle="1 minute")
    with pytest.raises(BadOption, match="`emit` needs windows that close"):
        joined.by("id").table("seen", n="count(*)", emit="final")


def test_distinct_is_its_columns_and_bound(orders):
    assert orders.distinct("id", "day", within="1 day").node == Distinct(
        orders.node, ("id", "day"), 24 * HOUR, False
    )
    made = orders.distinct("id", within=timedelta(hours=1), record_duplicates=True)
    assert (made.node.within_ms, made.node.record_duplicates, made.name) == (HOUR, True, "orders")
    assert str(made.node.site).startswith("test_joins.py:")


def test_distinct_needs_columns_and_a_bound(orders):
    with pytest.raises(BadOption, match=r"(?s)at least one column.*try: distinct\(\"id\", within="):
        orders.distinct(within="1 day")
    with pytest.raises(BadOption, match=r"(?s)distinct needs within=.*within="):
        orders.distinct("id")
    for within in (0, "-1 day", 5, "soon"):
        with pytest.raises(BadDuration, match="within"):
            orders.distinct("id", within=within)


def test_distinct_takes_columns_that_there_are_each_once(orders):
    with pytest.raises(BadName, match="given twice"):
        orders.distinct("id", "ID", within="1 day")
    with pytest.raises(BadName, match=r"\.select\(\"\*\", lower_id="):
        orders.distinct("lower(id)", within="1 day")
    with pytest.raises(BadOption, match=r"(?s)distinct names 'idd'.*stream 'orders'.*did you mean 'id'"):
        orders.distinct("idd", within="1 day")


def test_distinct_goes_by_arrival_where_there_is_no_event_time(untimed):
    assert untimed.distinct("id", within="1 day").node.within_ms == 86_400_000


@pytest.mark.parametrize("record", [None, 1, "yes"])
def test_recording_duplicates_is_yes_or_no(orders, record):
    with pytest.raises(BadOption, match="record_duplicates must be True or False"):
        orders.distinct("id", within="1 day", record_duplicates=record)


def test_rows_that_have_waited_are_too_late_for_windows_joins_and_distinct(app, orders, payments):
    held = orders.enrich(payments.by("id").latest().table("paid"), on="id", wait="1 minute")
    for use in (
        lambda: held.by("id").tumbling("1 hour"),
        lambda: held.join(payments, on="id", within="1 hour"),
        lambda: held.distinct("id", within="1 hour"),
    ):
        with pytest.raises(
            BadOption, match=rf"(?s)is not supported after enrich\(wait=...\) at {LINE}.*a table in between"
        ):
            use()
    assert held.by("id").rolling("1 hour").window.size_ms == HOUR
