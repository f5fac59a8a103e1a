"""Retracting streams: what can be declared on them, and what is refused with the reason."""

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.tree import retracts

COUNT = {"n": "count(*)"}
LINE = r"test_retraction\.py:\d+"
CHANGES = rf"totals\.changes\(\) at {LINE} may retract rows"
FOLLOWS = rf"enrich\(totals, on_update=True\) at {LINE} may retract rows"


@pytest.fixture
def orders():
    schema = "id string, region string, amount double, at timestamp"
    return kf.App("shop").stream("orders", kf.rows([]), schema, time="at")


@pytest.fixture
def totals(orders):
    return orders.by("region").table("totals", COUNT)


@pytest.fixture
def changing(totals):
    return totals.changes()


@pytest.fixture
def following(orders, totals):
    return orders.enrich(totals, on="region", on_update=True)


@pytest.fixture
def events(totals):
    return totals.changes(previous=True)


def test_tables_whole_rows_and_selections_can_be_made_of_rows_that_are_taken_back(
    orders, changing, following
):
    for number, stream in enumerate((changing, following)):
        made = stream.where("n > 1").select("*", more="n + 1")
        assert retracts(made.node)
        made.by(size="n").table(f"counts_{number}", COUNT)
        made.by("region").top(3, by="n desc").table(f"top_{number}")
        made.by("region").latest().table(f"latest_{number}")
    assert retracts(orders.union(changing).node)
    assert not retracts(orders.node)


def test_a_function_cannot_tell_what_is_taken_back(changing, following, events):
    with pytest.raises(
        BadOption,
        match=rf"(?s)transform is not supported on a retracting stream: {CHANGES}.*previous=True\), or where",
    ):
        changing.where("true").transform(lambda df: df)
    with pytest.raises(BadOption, match=rf"(?s)transform .*{FOLLOWS}.*try: leave on_update out, or where"):
        following.transform(lambda df: df)
    events.transform(lambda df: df)


def test_a_processor_cannot_tell_what_is_taken_back(changing, events):
    with pytest.raises(
        BadOption,
        match=rf"(?s)process is not supported on a retracting stream: {CHANGES}.*changes\(previous=True\)",
    ):
        changing.by("region").process("p", object, output="region string")
    events.by("region").process("p", object, output="region string")


def test_what_was_joined_stays_joined(orders, changing, following):
    with pytest.raises(
        BadOption,
        match=rf"(?s)join is not supported on a retracting stream: {CHANGES}.*enrich\(...\) or join_table",
    ):
        orders.join(changing, on="region", within=0)
    with pytest.raises(
        BadOption,
        match=rf"(?s)join is not supported on a retracting stream: {FOLLOWS}.*try: leave on_update out",
    ):
        following.join(orders, on="region", within=0)


def test_distinct_is_refused(changing, following):
    with pytest.raises(BadOption, match=rf"(?s)distinct is not supported on a retracting stream: {CHANGES}"):
        changing.distinct("region", within="1 day")
    with pytest.raises(BadOption, match=rf"(?s)distinct is not supported on a retracting stream: {FOLLOWS}"):
        following.distinct("region", within="1 day")


@pytest.mark.parametrize(
    ("kind", "declare"),
    [
        ("tumbling", lambda keyed: keyed.tumbling("1 hour")),
        ("sliding", lambda keyed: keyed.sliding("1 hour", every="1 minute")),
        ("session", lambda keyed: keyed.session("1 hour")),
        ("rolling", lambda keyed: keyed.rolling("1 hour")),
        ("last", lambda keyed: keyed.last(3)),
    ],
)
def test_windows_are_refused_with_another_way(orders, changing, following, kind, declare):
    with pytest.raises(
        BadOption,
        match=rf"(?s){kind} is not supported on a retracting stream: {CHANGES}.*stream that feeds 'totals'",
    ):
        declare(changing.by("region"))
    with pytest.raises(
        BadOption,
        match=rf"(?s){kind} is not supported on a retracting stream: {FOLLOWS}.*leave on_update out$",
    ):
        declare(following.by("region"))
    with pytest.raises(BadOption, match=f"{kind} is not supported on a retracting stream"):
        declare(orders.union(changing).by("region"))


def test_changes_as_events_have_no_event_time_for_windows_but_have_last_rows(events, changing):
    with pytest.raises(BadOption, match=r"(?s)tumbling needs event time: changes of table 'totals'"):
        events.by("region").tumbling("1 hour")
    with pytest.raises(BadOption, match=r"try: changes\(previous=True\), or windows"):
        changing.by("region").last(3)
    assert events.by("region").last(3).table("moving", COUNT).spec.window.rows == 3


def test_what_is_forgotten_cannot_be_taken_back(changing, following, events):
    with pytest.raises(
        BadOption,
        match=rf"(?s)`ttl` is not supported on a retracting stream: {CHANGES}.*'1 day'.*ttl= of that table",
    ):
        changing.by(size="n").table("counts", COUNT, ttl="1 day")
    with pytest.raises(
        BadOption, match=rf"(?s)`ttl` is not supported on a retracting stream: {FOLLOWS}.*keep= of enrich"
    ):
        following.by("n").latest().table("newest", ttl="1 day")
    assert events.by(size="n").table("counts", COUNT, ttl="1 day").spec.ttl_ms


def test_a_fold_needs_a_way_to_take_rows_back(changing, orders, totals):
    fold = {"zero": {"v": "0L"}, "update": {"v": "state.v + n"}}
    with pytest.raises(
        BadOption,
        match=rf"(?s)column 's' is a fold without retract, and {CHANGES}.*try: add retract={{'v': '\.\.\.'}}",
    ):
        changing.by("region").table("sums", s=kf.fold(**fold))
    both = kf.fold(**fold, retract={"v": "state.v - n"})
    assert both.retract == (("v", "state.v - n"),)
    assert changing.by("region").table("sums", s=both).spec.columns == (("s", both),)
    orders.by("region").table("plain", s=kf.fold(**fold))


def test_the_step_nearest_to_the_source_is_told(changing, totals):
    again = changing.enrich(totals, on="region")
    with pytest.raises(BadOption, match=rf"transform is not supported on a retracting stream: {CHANGES}"):
        again.transform(lambda df: df)
