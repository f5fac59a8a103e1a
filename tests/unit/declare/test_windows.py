"""Windows, as they are declared."""

from datetime import timedelta

import pytest

import keyfold as kf
from keyfold.errors import BadDuration, BadExpression, BadName, BadOption
from keyfold.plan.nodes import WindowSpec
from keyfold.plan.validate import emit as emit_checks
from keyfold.plan.validate.table_options import SUPPORTED

SCHEMA = "id string, region string, amount double, at timestamp"
COUNT = {"n": "count(*)"}
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
FOLD = kf.fold(zero={"v": "0", "w": "1"}, update={"v": "amount", "w": "state.w"}, result="state.v")
MERGED = kf.fold(zero={"v": "0"}, update={"v": "state.v + 1"}, merge={"v": "state.v + other.v"})

DECLARE = {
    "tumbling": lambda keyed: keyed.tumbling("1 minute"),
    "sliding": lambda keyed: keyed.sliding("1 hour", every="1 minute"),
    "session": lambda keyed: keyed.session("30 minutes"),
    "rolling": lambda keyed: keyed.rolling("5 minutes"),
    "last": lambda keyed: keyed.last(100),
}
CLOSING = ["tumbling", "sliding", "session"]
ENDLESS = ["rolling", "last"]


@pytest.fixture
def keyed(app):
    return app.stream("orders", kf.rows([]), schema=SCHEMA, time="at").by("region")


def windows(kind, keyed):
    return DECLARE[kind](keyed)


# What is declared


@pytest.mark.parametrize(
    ("declare", "spec"),
    [
        (lambda k: k.tumbling("1 minute"), WindowSpec("tumbling", MINUTE)),
        (lambda k: k.tumbling(timedelta(minutes=1)), WindowSpec("tumbling", MINUTE)),
        (lambda k: k.tumbling("1 hour", offset="5 min"), WindowSpec("tumbling", HOUR, offset_ms=5 * MINUTE)),
        (lambda k: k.tumbling("7 days", zone="UTC"), WindowSpec("tumbling", 7 * DAY, zone="UTC")),
        (lambda k: k.sliding("1 hour", every="1 minute"), WindowSpec("sliding", HOUR, MINUTE)),
        (lambda k: k.sliding("10 min", every="3 min"), WindowSpec("sliding", 10 * MINUTE, 3 * MINUTE)),
        (lambda k: k.sliding("1 hour", every="60 minutes"), WindowSpec("sliding", HOUR, HOUR)),
        (
            lambda k: k.sliding("2 days", every="1 day", offset="6 hours", zone="Europe/Berlin"),
            WindowSpec("sliding", 2 * DAY, DAY, 6 * HOUR, "Europe/Berlin"),
        ),
        (lambda k: k.session("30 minutes"), WindowSpec("session", 30 * MINUTE)),
        (lambda k: k.session(timedelta(minutes=30)), WindowSpec("session", 30 * MINUTE)),
        (lambda k: k.rolling("5 minutes"), WindowSpec("rolling", 5 * MINUTE)),
        (lambda k: k.rolling("5 minutes", every="1 min"), WindowSpec("rolling", 5 * MINUTE, MINUTE)),
        (lambda k: k.rolling("1 minute", every="1 minute"), WindowSpec("rolling", MINUTE, MINUTE)),
        (lambda k: k.last(100), WindowSpec("last", rows=100)),
    ],
)
def test_windows_become_part_of_the_table(keyed, declare, spec):
    windowed = declare(keyed)
    assert (windowed.node, windowed.keys, windowed.window) == (keyed.node, keyed.keys, spec)
    assert windowed.table("t", n="count(*)").spec.window == spec


def test_a_table_without_windows_has_none(keyed):
    spec = keyed.table("t", n="count(*)").spec
    assert (spec.window, spec.emit, spec.keep_ms, spec.idle_ms) == (None, "changes", None, None)


def test_windows_know_the_users_line_and_differ_not_by_it(keyed):
    first = keyed.tumbling("1 minute")
    second = keyed.tumbling("1 minute")
    assert first.window.site.file == __file__
    assert first.window.site != second.window.site
    assert first == second


def test_declaring_windows_leaves_the_keyed_stream_as_it_was(keyed):
    keyed.tumbling("1 minute").table("per_minute", COUNT)
    keyed.sliding("1 hour", every="1 minute").table("last_hour", COUNT)
    keyed.table("totals", COUNT)
    kinds = [table.window and table.window.kind for table in keyed.app.spec().tables]
    assert kinds == ["tumbling", "sliding", None]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("tumbling", "tumbling 1 minute"),
        ("sliding", "sliding 1 hour every 1 minute"),
        ("session", "session 30 minutes"),
        ("rolling", "rolling 5 minutes"),
        ("last", "last 100 rows"),
    ],
)
def test_a_keyed_stream_shows_its_windows(keyed, kind, shown):
    assert repr(windows(kind, keyed)) == f"<stream orders of shop by region, {shown}>"


# Lengths


@pytest.mark.parametrize("bad", [0, "0 s", "-1 minute", "1 month", 5, "soon", "", timedelta(0)])
@pytest.mark.parametrize(
    ("declare", "name"),
    [
        (lambda k, bad: k.tumbling(bad), "size"),
        (lambda k, bad: k.sliding(bad, every="1 s"), "size"),
        (lambda k, bad: k.sliding("1 hour", every=bad), "every"),
        (lambda k, bad: k.rolling(bad), "duration"),
    ],
)
def test_a_bad_length_is_refused_by_name(keyed, declare, name, bad):
    with pytest.raises(BadDuration, match=rf"(?s)^{name} .*where: shop\.orders, test_windows\.py:\d+"):
        declare(keyed, bad)


@pytest.mark.parametrize("bad", [0, "-1 minute", "1 month", 5, "soon"])
def test_a_bad_width_of_panes_is_refused(keyed, bad):
    with pytest.raises(BadDuration, match=r"^every "):
        keyed.rolling("1 hour", every=bad)


def test_every_longer_than_size_is_refused_with_the_reason(keyed):
    problem = r"(?s)every must not be longer than size: rows between two windows would be in none.*"
    given = r"given: size='1 minute', every='1 hour'\n  try: every='1 minute'"
    with pytest.raises(BadOption, match=problem + given):
        keyed.sliding("1 minute", every="1 hour")


def test_panes_wider_than_what_rolls_are_refused(keyed):
    with pytest.raises(BadOption, match=r"(?s)every must not be longer than duration.*at most '5 minutes'"):
        keyed.rolling("5 minutes", every="6 minutes")


@pytest.mark.parametrize(
    ("offset", "ms"),
    [
        (0, 0),
        ("0 s", 0),
        ("15 minutes", 15 * MINUTE),
        (timedelta(minutes=15), 15 * MINUTE),
        ("1 hour", 0),
        ("25 hours 1 minute", MINUTE),
        ("-15 minutes", 45 * MINUTE),
        (" -1 hour 15 minutes", 45 * MINUTE),
        (timedelta(minutes=-15), 45 * MINUTE),
    ],
)
def test_an_offset_is_less_than_the_distance_of_windows(keyed, offset, ms):
    assert keyed.tumbling("1 hour", offset=offset).window.offset_ms == ms
    assert keyed.sliding("3 hours", every="1 hour", offset=offset).window.offset_ms == ms


@pytest.mark.parametrize("offset", ["1 month", "soon", "--1 hour", 5, -5, None, True, "-"])
def test_a_bad_offset_is_refused(keyed, offset):
    with pytest.raises(BadDuration, match=r"^offset "):
        keyed.tumbling("1 hour", offset=offset)


# Time zones


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
    ],
)
def test_an_unknown_zone_is_refused_and_the_nearest_suggested(keyed, given, meant):
    expected = rf"(?s)name of a time zone.*zone='{given}'.*did you mean '{meant}'"
    for declare in (
        lambda: keyed.tumbling("1 day", zone=given),
        lambda: keyed.sliding("2 days", every="1 day", zone=given),
    ):
        with pytest.raises(BadOption, match=expected):
            declare()


@pytest.mark.parametrize(
    "zone", ["", "UTC+1", "+01:00", "../UTC", "/etc/passwd", "Europe", "EST", "localtime", 3]
)
def test_what_names_no_place_is_no_zone(keyed, zone):
    with pytest.raises(BadOption, match=r"(?s)name of a time zone.*try: a name such as 'Europe/Berlin'"):
        keyed.tumbling("1 day", zone=zone)


@pytest.mark.parametrize(
    ("declare", "given"),
    [
        (lambda k: k.tumbling("1 hour", zone="Europe/Berlin"), "size='1 hour'"),
        (lambda k: k.tumbling("36 hours", zone="Europe/Berlin"), "size='1 day 12 hours'"),
        (lambda k: k.sliding("1 day", every="1 hour", zone="Europe/Berlin"), "every='1 hour'"),
        (lambda k: k.sliding("30 hours", every="1 day", zone="Europe/Berlin"), "size='1 day 6 hours'"),
    ],
)
def test_windows_in_a_zone_are_whole_days_and_the_reason_is_told(keyed, declare, given):
    with pytest.raises(
        BadOption, match=rf"(?s)whole days with a zone, .* 23 or 25 hours.*given: {given}, zone="
    ):
        declare(keyed)


# Event time


@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session", "rolling"])
def test_windows_need_event_time_in_every_stream(app, kind):
    timed = app.stream("orders", kf.rows([]), schema=SCHEMA, time="at")
    arrived = app.stream("refunds", kf.rows([]), schema=SCHEMA)
    site = str(arrived.node.site).replace(".", r"\.")
    expected = (
        rf"(?s)^{kind} needs event time: stream 'refunds' at {site} has none\n"
        r"  where: shop\.(orders\+)?refunds, test_windows\.py:\d+\n  try: time=\"<a timestamp column>\""
    )
    for stream in (arrived, arrived.where("true"), timed.union(arrived)):
        with pytest.raises(BadOption, match=expected):
            windows(kind, stream.by("region"))


def test_the_last_rows_may_go_by_arrival(app):
    arrived = app.stream("refunds", kf.rows([]), schema=SCHEMA)
    assert arrived.by("region").last(3).window.rows == 3


@pytest.mark.parametrize(
    ("future", "ms"), [("2 hours", 2 * HOUR), (timedelta(days=2), 2 * DAY), (0, 0), (None, None)]
)
def test_a_stream_may_say_how_far_ahead_its_times_may_be(app, future, ms):
    assert app.stream("orders", kf.rows([]), schema=SCHEMA, time="at", future=future).node.future_ms == ms


def test_times_may_be_a_day_ahead_unless_the_stream_says_otherwise(app, keyed):
    assert keyed.node.future_ms == DAY
    assert app.stream("refunds", kf.rows([]), schema=SCHEMA).node.future_ms is None


def test_a_future_without_time_is_refused_with_the_reason(app):
    expected = r"(?s)`future` needs time=.*future='1 hour'.*try: time=\"<a timestamp column>\""
    with pytest.raises(BadOption, match=expected):
        app.stream("refunds", kf.rows([]), schema=SCHEMA, future="1 hour")
    assert app.stream("refunds", kf.rows([]), schema=SCHEMA, future=None).node.future_ms is None


@pytest.mark.parametrize("future", ["1 month", "-1 day", 5, "soon", True])
def test_a_bad_future_is_refused(app, future):
    with pytest.raises(BadDuration, match=r"^future "):
        app.stream("orders", kf.rows([]), schema=SCHEMA, time="at", future=future)


# Gaps and counts


def gap():
    return None


@pytest.mark.parametrize(
    "given", ["pause", "case when amount > 1 then '1 hour' else pause end", " (pause)", gap]
)
def test_a_gap_may_be_an_expression(keyed, given):
    assert keyed.session(given).window == WindowSpec("session", gap=given)


@pytest.mark.parametrize(
    "given", [0, "", "  ", "-1 hour", "+1 hour", "1 month", "5", 30, 1.5, None, timedelta(-1)]
)
def test_a_bad_length_of_a_gap_is_refused(keyed, given):
    with pytest.raises(BadDuration, match=r"^gap "):
        keyed.session(given)


@pytest.mark.parametrize("given", [["1 hour"], lambda row: row, FOLD])
def test_a_bad_expression_of_a_gap_is_refused(keyed, given):
    with pytest.raises(BadExpression, match="the gap of session"):
        keyed.session(given)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None])
def test_a_bad_number_of_last_rows_is_refused(keyed, n):
    with pytest.raises(BadOption, match="n of last must be a whole number above zero"):
        keyed.last(n)


def test_more_last_rows_than_can_be_counted_are_refused(keyed):
    assert keyed.last(2**31 - 1).window.rows == 2147483647
    with pytest.raises(BadOption, match=r"(?s)n of last must be at most 2147483647.*fewer rows"):
        keyed.last(2**31)


@pytest.mark.parametrize("first", DECLARE)
@pytest.mark.parametrize("second", DECLARE)
def test_windows_on_top_of_others_are_refused(keyed, first, second):
    windowed = windows(first, keyed)
    line = r"test_windows\.py:\d+"
    expected = rf"(?s)is already windowed, {first} .*, declared at {line}.*try: start from by\(\.\.\.\)"
    with pytest.raises(BadOption, match=expected):
        windows(second, windowed)


# Options of their tables


def test_the_options_of_windows_are_options_of_tables():
    assert {"emit", "keep", "idle"} <= set(SUPPORTED)


@pytest.mark.parametrize("kind", CLOSING)
def test_tables_of_windows_that_close_say_when_and_how_long(keyed, kind):
    made = windows(kind, keyed).table("t", COUNT, emit="final", keep="7 days", idle=timedelta(minutes=1)).spec
    assert (made.emit, made.keep_ms, made.idle_ms, made.ttl_ms) == ("final", 7 * DAY, MINUTE, None)


@pytest.mark.parametrize("kind", CLOSING)
def test_windows_that_close_have_no_ttl(keyed, kind):
    expected = r"(?s)`ttl` is not supported with .* windows, which close by themselves.*try: keep='7 days'"
    with pytest.raises(BadOption, match=expected):
        windows(kind, keyed).table("t", COUNT, ttl="7 days")


@pytest.mark.parametrize("kind", ENDLESS)
def test_rolling_and_last_may_have_a_ttl(keyed, kind):
    assert windows(kind, keyed).table("t", COUNT, ttl="7 days", emit="changes").spec.ttl_ms == 7 * DAY


@pytest.mark.parametrize(
    ("option", "value"), [("emit", "final"), ("keep", "7 days"), ("keep", timedelta(7)), ("idle", "1 minute")]
)
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (None, "the table has no windows"),
        ("rolling", "a rolling window moves with the rows of its key and never closes"),
        ("last", "a last-N window moves with the rows of its key and never closes"),
    ],
)
def test_options_of_closing_are_refused_where_nothing_closes(keyed, kind, why, option, value):
    windowed = windows(kind, keyed) if kind else keyed
    expected = (
        rf"(?s)`{option}` needs windows that close: {why}\n  where: shop\.t, test_windows\.py:\d+\n"
        rf"  given: {option}=.*\n  try: leave {option} out, or use tumbling\(\.\.\.\)"
    )
    with pytest.raises(BadOption, match=expected):
        windowed.table("t", COUNT, **{option: value})


def test_whoever_wants_to_forget_silent_keys_is_told_of_ttl(keyed):
    with pytest.raises(BadOption, match="ttl= expires keys without rows"):
        keyed.last(3).table("t", COUNT, keep="7 days")


@pytest.mark.parametrize(("emit", "hint"), [("finl", "did you mean 'final'"), (None, "None"), ("", "''")])
def test_a_bad_emit_is_refused(keyed, emit, hint):
    with pytest.raises(BadOption, match=rf"(?s)emit must be one of: changes, final.*{hint}"):
        keyed.tumbling("1 minute").table("t", COUNT, emit=emit)


@pytest.mark.parametrize("option", ["keep", "idle"])
@pytest.mark.parametrize("bad", ["1 month", 0, 30, "-1 day", "soon"])
def test_a_bad_keep_or_idle_is_refused(keyed, option, bad):
    with pytest.raises(BadDuration, match=rf"(?s)^{option} .*where: shop\.t, test_windows\.py:\d+"):
        keyed.tumbling("1 minute").table("t", COUNT, **{option: bad})


@pytest.mark.parametrize("option", ["ttl", "emit", "keep", "idle"])
@pytest.mark.parametrize("value", ["max(amount)", FOLD])
def test_an_aggregate_as_option_is_taken_for_a_column_and_refused(keyed, option, value):
    with pytest.raises(
        BadOption,
        match=rf"(?s)`{option}` is an option of table, not a column.*"
        rf"pass the columns as a dict: {{'{option}'",
    ):
        keyed.tumbling("1 minute").table("t", COUNT, **{option: value})
    made = keyed.tumbling("1 minute").table("t", {option: value})
    assert made.spec.columns == ((option, value),)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [("emitt", "final", "emit"), ("keeps", "1 d", "keep"), ("idel", "1 m", "idle")],
)
def test_a_misspelt_option_is_refused_and_the_right_one_suggested(keyed, name, value, meant):
    with pytest.raises(BadOption, match=rf"(?s)unknown option '{name}'.*did you mean '{meant}'"):
        keyed.tumbling("1 minute").table("t", COUNT, **{name: value})


def test_a_refused_table_of_windows_leaves_its_name_free(keyed):
    with pytest.raises(BadOption):
        keyed.tumbling("1 minute").table("t", COUNT, ttl="1 day")
    assert keyed.app.spec().tables == ()
    keyed.tumbling("1 minute").table("t", COUNT)


# Names and folds


@pytest.mark.parametrize("name", ["window_start", "window_end", "Window_Start"])
@pytest.mark.parametrize("kind", CLOSING)
def test_the_bounds_of_windows_need_their_names(app, keyed, kind, name):
    with pytest.raises(
        BadName,
        match=rf"(?s)column '{name}' has the name of a column that every windowed table has.*"
        "another name for the column",
    ):
        windows(kind, keyed).table("t", {name: "max(at)"})
    other = app.stream("other", kf.rows([]), schema=SCHEMA, time="at").by(**{name: "date(at)"})
    with pytest.raises(
        BadName,
        match=rf"(?s)key '{name}' has the name of a column that every windowed table has.*"
        "another name for the key",
    ):
        windows(kind, other).table("t", COUNT)


@pytest.mark.parametrize("declare", [*(DECLARE[kind] for kind in ENDLESS), lambda keyed: keyed])
def test_tables_without_bounds_may_use_their_names(keyed, declare):
    made = declare(keyed).table("t", window_start="min(at)", window_end="max(at)")
    assert [name for name, _ in made.spec.columns] == ["window_start", "window_end"]


MERGING = [
    (DECLARE["sliding"], "sliding windows are merged from panes", "or set every= to the window size"),
    (DECLARE["session"], "sessions are merged when a row connects them", r"or use tumbling\(\.\.\.\)"),
    (
        lambda k: k.session("pause"),
        "sessions are merged when a row connects them",
        r"or use tumbling\(\.\.\.\)",
    ),
    (
        lambda k: k.rolling("5 m", every="1 m"),
        "rolling windows with every= are merged from panes",
        "or leave every= out",
    ),
]


@pytest.mark.parametrize(("declare", "why", "instead"), MERGING)
def test_a_fold_without_merge_is_refused_where_states_are_merged(keyed, declare, why, instead):
    expected = (
        rf"(?s)column 'f' is a fold without merge, and {why}\n  where: shop\.t, test_windows\.py:\d+\n"
        rf"  given: kf\.fold\(\.\.\.\) at {FOLD.site}\n"
        rf"  try: add merge={{'v': '\.\.\.', 'w': '\.\.\.'}}.*{instead}"
    )
    with pytest.raises(BadOption, match=expected):
        declare(keyed).table("t", n="count(*)", f=FOLD)
    assert emit_checks.merges(declare(keyed).table("t", n="count(*)", f=MERGED).spec.window)


@pytest.mark.parametrize(
    "declare",
    [
        lambda keyed: keyed,
        DECLARE["tumbling"],
        DECLARE["last"],
        DECLARE["rolling"],
        lambda keyed: keyed.sliding("1 hour", every="1 hour"),
    ],
)
def test_a_fold_without_merge_works_where_none_is_needed(keyed, declare):
    spec = declare(keyed).table("t", f=FOLD).spec
    assert spec.columns == (("f", FOLD),)
    assert not emit_checks.merges(spec.window)


def test_windows_without_number_are_refused():
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="id string, at timestamp", time="at")
    with pytest.raises(BadOption, match="31,536,000 windows") as found:
        orders.by("id").sliding("365 days", every="1 second")
    assert "every of at least '5 minutes 15 seconds 360 ms'" in str(found.value)
