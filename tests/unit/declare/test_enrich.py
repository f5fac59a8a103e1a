"""Streams enriched by tables and lookups, as they are declared."""

import pytest

import keyfold as kf
from keyfold.errors import BadDuration, BadName, BadOption, NameTaken
from keyfold.plan.nodes import Enrich, Lookup, LookupJoin, TopSpec
from keyfold.plan.tree import reads, retracts

COUNT = {"n": "count(*)"}
LINE = r"test_enrich\.py:\d+"
PRICES = "sku string, price double"


@pytest.fixture
def orders(app):
    return app.stream(
        "orders", kf.rows([]), "id string, customer string, sku string, at timestamp", time="at"
    )


@pytest.fixture
def news(app):
    return app.stream("news", kf.rows([]), "customer string, city string, at timestamp", time="at")


@pytest.fixture
def customers(news):
    return news.by("customer").latest().table("customers")


@pytest.fixture
def places(news):
    return news.by("customer", "city").table("places", COUNT)


@pytest.fixture
def clicks(app):
    return app.stream("clicks", kf.rows([]), "customer string")


def test_an_enriched_stream_names_its_table(orders, customers):
    made = orders.enrich(customers, on="customer", how="inner", wait="1 minute")
    assert made.node == Enrich(
        orders.node, "customers", ("customer",), "inner", 60_000, "arrival", False, None
    )
    assert str(made.node.site).startswith("test_enrich.py:")
    assert (made.name, reads(made.node)) == ("orders", (made.node,))


def test_on_is_by_default_the_key_of_the_table(orders, clicks, customers, places):
    assert clicks.enrich(customers).node.on == ("customer",)
    with pytest.raises(BadOption, match=r"(?s)on names 'city', which is not a column of stream 'orders'"):
        orders.enrich(places)


def test_columns_of_on_are_matched_in_order(orders, places):
    assert orders.enrich(places, on=["id", "customer"]).node.on == ("id", "customer")


def test_on_has_as_many_columns_as_the_key_and_both_are_named(orders, customers, places):
    problem = r"(?s)on must name 2 columns, for the key of table 'places': customer, city.*given: on=\['id'\]"
    with pytest.raises(BadOption, match=problem):
        orders.enrich(places, on="id")
    with pytest.raises(BadOption, match=r"(?s)on must name 1 column, .* 'customers': customer\n"):
        orders.enrich(customers, on=["id", "customer"])


def test_the_key_of_windows_has_their_bounds(app, orders, news):
    windowed = news.by("customer").tumbling("1 hour").table("hourly", COUNT)
    with pytest.raises(BadOption, match=r"3 columns, .*: customer, window_start, window_end"):
        orders.enrich(windowed, on="customer")
    assert orders.enrich(windowed, on=["customer", "at", "id"]).node.on == ("customer", "at", "id")
    moving = news.by("customer").last(3).table("moving", COUNT)
    assert orders.enrich(moving, on="customer").node.table == "moving"


def test_the_key_of_a_top_table_has_the_rank(orders, news):
    top = news.by("customer").top(3, by="at desc").table("top")
    with pytest.raises(BadOption, match=r"2 columns, .*: customer, rank"):
        orders.enrich(top, on="customer")
    assert orders.select("*", first="1").enrich(top, on=["customer", "first"]).node.on == (
        "customer",
        "first",
    )


@pytest.mark.parametrize("on", [[], 3, {"customer": "id"}])
def test_what_is_no_column_is_refused(orders, customers, on):
    with pytest.raises(BadOption, match="on "):
        orders.enrich(customers, on=on)


def test_a_condition_is_refused(orders, customers):
    with pytest.raises(BadName, match=r"(?s)is not allowed as the name of a column.*\.select\("):
        orders.enrich(customers, on="orders.customer = customers.customer")


def test_a_column_that_the_stream_lacks_is_refused_and_the_nearest_suggested(orders, customers):
    with pytest.raises(
        BadOption,
        match=rf"(?s)on names 'custmer', .* stream 'orders'.*shop\.orders, {LINE}.*did you mean 'customer'",
    ):
        orders.enrich(customers, on="custmer")


@pytest.mark.parametrize("how", ["right", "full", "left_anti", "", None])
def test_a_stream_is_enriched_left_or_inner(orders, customers, how):
    with pytest.raises(BadOption, match="how must be one of: left, inner"):
        orders.enrich(customers, on="customer", how=how)


def test_only_tables_of_the_same_app_and_lookups_enrich(orders, news):
    other = kf.App("other").stream("s", kf.rows([]), "customer string").by("customer").table("far", COUNT)
    with pytest.raises(
        BadOption, match=r"enrich takes tables of the same app, and 'far' belongs to app 'other'"
    ):
        orders.enrich(other, on="customer")
    with pytest.raises(
        BadOption, match=r"(?s)enrich takes a table or a lookup.*join\(\.\.\.\) for two streams"
    ):
        orders.enrich(news, on="customer")
    for bad in (None, "customers", kf.rows([])):
        with pytest.raises(BadOption, match=r"(?s)enrich takes a table or a lookup.*kf\.lookup"):
            orders.enrich(bad, on="customer")


def test_rows_that_follow_the_table_may_be_taken_back(orders, customers):
    made = orders.enrich(customers, on="customer", on_update=True, keep="1 day")
    assert (made.node.on_update, made.node.keep_ms) == (True, 86_400_000)
    assert retracts(made.node)
    assert not retracts(orders.enrich(customers, on="customer").node)


def test_keep_is_for_rows_that_follow_the_table(orders, customers):
    with pytest.raises(BadOption, match=r"(?s)`keep` needs on_update=True.*keep='1 day'.*on_update=True"):
        orders.enrich(customers, on="customer", keep="1 day")


def test_a_row_that_follows_the_table_need_not_wait(orders, customers):
    with pytest.raises(BadOption, match=r"(?s)`wait` is not supported with on_update:.*given: wait='1 s'"):
        orders.enrich(customers, on="customer", on_update=True, wait="1 s")


def test_the_row_of_a_time_past_does_not_follow_the_table(orders, customers):
    with pytest.raises(BadOption, match="as_of='event' is not supported with on_update:"):
        orders.enrich(customers, on="customer", on_update=True, as_of="event")


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("wait", "soon", BadDuration),
        ("wait", 5, BadDuration),
        ("keep", 0, BadDuration),
        ("as_of", "evnt", BadOption),
        ("as_of", None, BadOption),
        ("on_update", "yes", BadOption),
        ("on_update", None, BadOption),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(orders, customers, option, value, error):
    with pytest.raises(error, match=rf"(?s){option}.*where: shop\.orders, {LINE}"):
        orders.enrich(customers, on="customer", **{option: value})


def test_a_row_may_meet_the_table_as_of_its_event_time(orders, customers, news):
    assert orders.enrich(customers, on="customer", as_of="event", wait=0).node.as_of == "event"
    totals = news.by("customer").table("totals", COUNT)
    assert orders.enrich(totals, on="customer", as_of="event").node.table == "totals"


def test_event_time_is_needed_on_both_sides(orders, clicks, customers, news):
    with pytest.raises(BadOption, match=r"as_of='event' needs event time: stream 'clicks'"):
        clicks.enrich(customers, as_of="event")
    counts = news.union(clicks).by("customer").table("counts", COUNT)
    with pytest.raises(BadOption, match=rf"as_of='event' needs event time: stream 'clicks' at {LINE}"):
        orders.enrich(counts, on="customer", as_of="event")
    again = customers.changes(previous=True).by("customer").table("again", COUNT)
    with pytest.raises(BadOption, match=r"changes of table 'customers' at .* have none"):
        orders.enrich(again, on="customer", as_of="event")


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda news, _: news.by("customer").tumbling("1 hour").table("t", COUNT), "it is windowed"),
        (lambda news, _: news.by("customer").rolling("1 hour").table("t", COUNT), "it is windowed"),
        (lambda news, _: news.by("customer").top(2, by="at").table("t"), "it keeps top 2 by at"),
        (
            lambda news, _: news.by("customer").process("t", object, output="customer string"),
            "a processor fills it",
        ),
        (
            lambda news, c: news.enrich(c, on_update=True).by("customer").table("t", COUNT),
            r"enrich\(customers, on_update=True\) at .* may retract rows",
        ),
    ],
)
def test_tables_whose_past_is_not_kept_are_refused_as_of_event_time(orders, news, customers, declare, why):
    table = declare(news, customers)
    columns = ["customer", "id", "sku"][: {"tumbling": 3, "top": 2}.get(_kind(table), 1)]
    with pytest.raises(BadOption, match=rf"as_of='event' is not supported with table 't': {why}"):
        orders.enrich(table, on=columns, as_of="event")


def _kind(table):
    if isinstance(table.spec.body, TopSpec):
        return "top"
    return table.spec.window and table.spec.window.kind


def test_rows_that_may_be_retracted_are_updated_with_the_table(customers, places):
    made = places.changes().enrich(customers, on="customer")
    assert made.node.on_update
    implied = rf"on_update, which places\.changes\(\) at {LINE} implies"
    with pytest.raises(BadOption, match=rf"`wait` is not supported with {implied}"):
        places.changes().enrich(customers, on="customer", wait="1 s")
    with pytest.raises(BadOption, match="needs event time: changes of table 'places'"):
        places.changes().enrich(customers, on="customer", as_of="event")
    assert not places.changes(previous=True).enrich(customers, on="customer").node.on_update


def test_rows_are_kept_as_long_as_they_may_be_taken_back(orders, customers, places):
    first = orders.enrich(customers, on="customer", on_update=True, keep="1 day")
    assert first.enrich(places, on=["customer", "id"], keep="1 day").node.keep_ms == 86_400_000
    with pytest.raises(
        BadOption, match=r"(?s)`keep` is too short: enrich\(customers.*at least as long as there"
    ):
        first.enrich(places, on=["customer", "id"], keep="1 hour")
    with pytest.raises(BadOption, match=r"(?s)`keep` is too short: places\.changes\(\).*leave keep out"):
        places.changes().enrich(customers, on="customer", keep="1 day")


def test_a_lookup_is_plain_data():
    source = kf.files("prices.csv", format="csv")
    made = kf.lookup("prices", source, f" {PRICES} ", refresh="10 minutes", duplicates="last", help=" Now\n")
    assert made == Lookup("prices", source, PRICES, 600_000, "last", "Now")
    assert str(made.site).startswith("test_enrich.py:")


@pytest.mark.parametrize("name", ["my prices", "_prices", "", None])
def test_the_name_of_a_lookup_is_an_identifier(name):
    with pytest.raises(BadName, match="lookup"):
        kf.lookup(name, kf.rows([]), PRICES)


def test_a_lookup_needs_a_schema():
    with pytest.raises(BadOption, match=rf"(?s)lookup 'prices' needs a schema.*where: prices, {LINE}"):
        kf.lookup("prices", kf.rows([]))
    for schema in ("", "  ", "sku", 3, "sku string, sku int"):
        with pytest.raises((BadOption, BadName), match="schema"):
            kf.lookup("prices", kf.rows([]), schema)


@pytest.mark.parametrize("source", [kf.rate(), kf.spark("rate"), kf.spark("Socket", host="h", port=1)])
def test_a_source_without_end_is_no_lookup(source):
    with pytest.raises(BadOption, match=r"(?s)needs a bounded source.*kf\.files"):
        kf.lookup("prices", source, PRICES)


@pytest.mark.parametrize("source", [None, "prices.csv", kf.App("x")])
def test_what_is_no_source_is_no_lookup(source):
    with pytest.raises(BadOption, match="lookup takes a source"):
        kf.lookup("prices", source, PRICES)


def test_the_options_of_a_lookup_are_checked():
    with pytest.raises(BadDuration, match="refresh"):
        kf.lookup("prices", kf.rows([]), PRICES, refresh=0)
    with pytest.raises(BadOption, match=r"(?s)duplicates must be one of: error, first, last.*'last'"):
        kf.lookup("prices", kf.rows([]), PRICES, duplicates="lats")
    with pytest.raises(BadOption, match="help"):
        kf.lookup("prices", kf.rows([]), PRICES, help=3)


def test_a_stream_is_enriched_by_a_lookup(orders):
    prices = kf.lookup("prices", kf.rows([]), PRICES)
    made = orders.enrich(prices, on="sku", how="inner")
    assert made.node == LookupJoin(orders.node, prices, ("sku",), "inner")
    assert str(made.node.site).startswith("test_enrich.py:")
    assert made.name == "orders"
    assert orders.enrich(prices, on=["SKU"]).node.on == ("SKU",)


def test_a_lookup_needs_on_with_columns_that_both_have(orders):
    prices = kf.lookup("prices", kf.rows([]), f"{PRICES}, shop string")
    with pytest.raises(BadOption, match=r"(?s)enrich with lookup 'prices' needs on=.*try: on='sku'"):
        orders.enrich(prices)
    with pytest.raises(BadOption, match=r"(?s)'skku', which is not a column of lookup 'prices'.*mean 'sku'"):
        orders.enrich(prices, on="skku")
    with pytest.raises(BadOption, match="'shop', which is not a column of stream 'orders'"):
        orders.enrich(prices, on=["sku", "shop"])


@pytest.mark.parametrize(
    ("option", "value"), [("wait", "1 s"), ("as_of", "event"), ("on_update", True), ("keep", "1 day")]
)
def test_options_that_a_lookup_does_not_take_are_refused_by_name(orders, option, value):
    prices = kf.lookup("prices", kf.rows([]), PRICES)
    with pytest.raises(
        BadOption,
        match=rf"(?s)enrich with a lookup does not take {option}=.*{option}={value!r}.*leave {option}",
    ):
        orders.enrich(prices, on="sku", **{option: value})


def test_two_lookups_of_one_name_are_refused_with_both_lines(orders):
    orders.enrich(kf.lookup("prices", kf.rows([]), PRICES), on="sku")
    orders.enrich(kf.lookup("prices", kf.rows([]), PRICES), on="sku", how="inner")
    with pytest.raises(
        NameTaken,
        match=rf"(?s)lookup 'Prices' has the name of another lookup .* at {LINE}.*"
        rf"given: kf\.lookup\('Prices'.*{LINE}",
    ):
        orders.enrich(kf.lookup("Prices", kf.rows([]), PRICES, refresh="1 hour"), on="sku")
    kf.App("other").stream("s", kf.rows([]), "sku string").enrich(
        kf.lookup("prices", kf.rows([]), PRICES, refresh="1 hour"), on="sku"
    )


def test_a_lookup_that_was_refused_leaves_its_name_free(orders):
    with pytest.raises(BadOption):
        orders.enrich(kf.lookup("prices", kf.rows([]), PRICES), on="nothing")
    orders.enrich(kf.lookup("prices", kf.rows([]), PRICES, refresh="1 hour"), on="sku")


def test_rows_that_may_be_taken_back_meet_only_lookups_that_stay(places):
    still = kf.lookup("cities", kf.rows([]), "city string, country string")
    assert places.changes().enrich(still, on="city").node.lookup == still
    moving = kf.lookup("towns", kf.rows([]), "city string, country string", refresh="1 hour")
    with pytest.raises(
        BadOption,
        match=r"(?s)lookup with `refresh` is not supported on a retracting stream: places\.changes\(\)",
    ):
        places.changes().enrich(moving, on="city")
    assert places.changes(previous=True).enrich(moving, on="city").node.lookup == moving


def test_waiting_needs_event_time(clicks, customers):
    with pytest.raises(BadOption, match=rf"wait needs event time: stream 'clicks' at {LINE}"):
        clicks.enrich(customers, wait="1 s")
