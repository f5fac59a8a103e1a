"""Patterns as they are declared: the language, what is refused, and how they are described."""

import json
import re

import pytest

import keyfold as kf
from keyfold.errors import BadDuration, BadExpression, BadName, BadOption
from keyfold.plan.describe.text import describe
from keyfold.plan.pattern.syntax import Atom, Chain, Either, No, PatternSpec, Repeat
from keyfold.plan.table_keys import key_names

LINE = r"test_patterns\.py:\d+"


def step(name, **options):
    return kf.step(name, f"kind = '{name}'", **options)


A, B, C = (step(name) for name in "abc")
NO = kf.no("x", "kind = 'x'")


@pytest.fixture
def keyed():
    return (
        kf.App("bank")
        .stream("rows", kf.rows([]), "card int, kind string, at timestamp", time="at")
        .by("card")
    )


def by(keyed, **keys):
    return kf.Stream(keyed.app, keyed.node).by(**keys)


def declared(keyed, steps, **options):
    return keyed.pattern("found", steps, **{"within": "1 hour", **options}).spec.body


def test_a_pattern_is_frozen_data(keyed):
    made = declared(keyed, A >> NO >> B.then(C), skip="to_first(b)", returns={"n": "size(a)"}, timeouts=True)
    a, b, c = (Atom(n, f"kind = '{n}'") for n in "abc")
    chain = Chain(a, (("relaxed", No("x", "kind = 'x'")), ("relaxed", b), ("strict", c)))
    assert made == PatternSpec(chain, 3_600_000, "to_first", "b", returns=(("n", "size(a)"),), timeouts=True)
    assert str(made.site).startswith("test_patterns.py:")


def test_brackets_do_not_change_a_chain():
    assert (A >> B) >> C == A >> (B >> C)
    assert (A | B) | C == A | (B | C)


@pytest.mark.parametrize(
    ("times", "bounds"),
    [
        (3, (3, 3)),
        ((2, 4), (2, 4)),
        ((2, None), (2, None)),
        ("+", (1, None)),
        ("*", (0, None)),
        ("?", (0, 1)),
    ],
)
def test_how_often_a_step_comes(times, bounds):
    repeat = step("a", times=times).sequence
    assert isinstance(repeat, Repeat)
    assert (repeat.least, repeat.most) == bounds
    assert (A >> B).times(times).sequence.body == (A >> B).sequence


def test_a_step_that_comes_once_is_no_repetition():
    assert isinstance(step("a").sequence, Atom)
    assert isinstance(step("a", times=(1, 1)).sequence, Atom)


def test_a_pattern_shows_itself():
    steps = step("a", times=3) >> NO >> (B | C.then(A)).times("+", greedy=False, strict=True)
    assert repr(steps) == "<pattern a{3} >> no x >> (b | (c then a))+ lazy strict>"


def test_a_match_is_found_by_key_and_identity(keyed):
    table = keyed.pattern("found", A >> B, within="1 hour")
    assert key_names(table.spec) == ("card", "match_id")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda k: step("a", times=(3, 2)), BadOption,
         "a minimum of 3 above its maximum of 2.*try: times=.2, 3."),
        (lambda k: step("a", times=0), BadOption, "times must not be 0"),
        (lambda k: step("a", times="many"), BadOption, "times is not a number of repetitions"),
        (lambda k: step("a", times=-1), BadOption, "times is not a number of repetitions"),
        (lambda k: step("a", times=True), BadOption, "times is not a number of repetitions"),
        (lambda k: step("a", strict=True), BadOption, "`strict` needs a repeated step"),
        (lambda k: step("a", until="amount > 1"), BadOption, "`until` needs a repeated step"),
        (lambda k: step("a", times=2, strict=True, combinations=True), BadOption,
         "strict and combinations exclude each other"),
        (lambda k: step("a b"), BadName, "'a b' is not allowed as the name of a step"),
        (lambda k: kf.step("a", 7), BadExpression, "the condition of step 'a' is not an expression"),
        (lambda k: A >> "b", BadOption, ">> takes a step or a pattern"),
        (lambda k: NO >> A, BadOption, "kf.no must not begin a pattern"),
        (lambda k: A.any(NO), BadOption, "kf.no must not follow any"),
        (lambda k: A | NO, BadOption, "kf.no must not be an alternative"),
        (lambda k: NO.times(2), BadOption, "kf.no must not be repeated"),
        (lambda k: declared(k, "a"), BadOption, "pattern takes steps"),
        (lambda k: declared(k, NO), BadOption, "kf.no 'x' is the whole pattern"),
        (lambda k: declared(k, (A >> NO).times(2)), BadOption, "kf.no 'x' ends a part of the pattern"),
        (lambda k: declared(k, A.then(NO)), BadOption, "may end with kf.no 'x' as its very next row"),
        (lambda k: declared(k, step("a", times="*") >> step("b", times="?")), BadOption,
         "can match without a row"),
        (lambda k: declared(k, A >> B, within=None), BadOption, "needs `within`.*within="),
        (lambda k: declared(k, A.then(step("b", times="+")), within=None), BadOption,
         "its partial matches would be kept forever"),
        (lambda k: declared(k, A >> NO, within=None), BadOption, "ends with kf.no 'x', and without `within`"),
        (lambda k: declared(k, A.then(B), within=None, timeouts=True), BadOption, "timeouts need `within`"),
        (lambda k: declared(k, A >> B, within="soon"), BadDuration, "within"),
        (lambda k: declared(k, A >> kf.step("A", "kind = 'z'")), BadName,
         "two different steps are named 'A'"),
        (lambda k: declared(k, A >> step("kind")), BadName, "a step and a column of"),
        (lambda k: declared(k, A >> step("prev")), BadName, "must not be named 'prev'"),
        (lambda k: declared(k, A, skip="to_first(z)"), BadOption, "skip names 'z', which is not a step"),
        (lambda k: declared(k, A, skip="to_last"), BadOption, "skip='to_last' needs the name of a step"),
        (lambda k: declared(k, A, skip="past"), BadOption, "skip must be one of: past_last, next"),
        (lambda k: declared(k, A, order="time"), BadOption, "order must be one of: event, arrival"),
        (lambda k: declared(k, A, limit=0), BadOption, "limit must be a whole number above zero"),
        (lambda k: declared(k, A, limit=3_000_000_000), BadOption, "limit is too large.*at most 2147483647"),
        (lambda k: declared(by(k, started="at"), A), BadName,
         "key 'started' has the name of.*started_key='at'"),
        (lambda k: declared(by(k, Match_ID="card"), A), BadName,
         "key 'Match_ID' has the name of a column of every"),
        (lambda k: declared(by(k, timed_out="card"), A, timeouts=True), BadName,
         "key 'timed_out' has the name of"),
        (lambda k: declared(by(k, B="card"), A >> B), BadName, "key 'B' has the name of a step"),
        (lambda k: declared(k, A >> NO >> B >> kf.no("y", "kind = 'y'") >> C >> NO, within=None), BadOption,
         "the pattern ends with kf.no 'x'"),
        (lambda k: declared(k, A, returns={"started": "1"}), BadName,
         "'started' in returns has the name of a column"),
        (lambda k: declared(k, A, returns={"card": "1"}), BadName, "'card' in returns has the name of a key"),
        (lambda k: declared(k, A, returns="size(a)"), BadOption, "returns must be a dict"),
        (lambda k: declared(k.tumbling("1 hour"), A), BadOption, "pattern is not supported here"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_when_it_is_declared(keyed, make, error, said):
    with pytest.raises(error) as caught:
        make(keyed)
    text = " ".join(str(caught.value).split())

    assert re.search(said, text), text
    assert re.search(LINE, text), text


def test_rows_that_may_be_taken_back_have_no_pattern(keyed):
    totals = keyed.table("totals", n="count(*)")
    with pytest.raises(BadOption, match="pattern is not supported on a retracting stream: totals"):
        totals.changes().by("card").pattern("found", kf.step("many", "n > 9"))


def test_rows_that_have_waited_have_a_pattern_by_arrival_alone(keyed):
    known = keyed.latest().table("known")
    rows = kf.Stream(keyed.app, keyed.node).enrich(known, on="card", wait="1 minute").by("card")
    with pytest.raises(BadOption, match=r"pattern is not supported after enrich\(wait"):
        declared(rows, A >> B)
    assert declared(rows, A >> B, order="arrival").order == "arrival"


def test_a_pattern_of_very_next_rows_needs_no_bound(keyed):
    assert declared(keyed, A.then(B).then(step("c", times=2, strict=True)), within=None).within_ms is None


def test_a_key_may_be_called_as_what_this_pattern_does_not_show(keyed):
    assert declared(by(keyed, timed_out="card"), A).timeouts is False


def test_a_pattern_is_described(keyed):
    steps = step("a", times=3) >> NO >> B
    table = keyed.pattern("found", steps, within="1 hour", skip="to_last(a)", returns={"n": "size(a)"})
    text = describe(table.app.spec())
    assert "pattern     a{3} >> no x >> b, within 1 hour, skip to_last(a)" in text
    assert "no x  kind = 'x'" in text
    assert "columns     n  size(a)" in text
    drawn = describe(table.app.spec(), "mermaid")
    assert 'pattern_found_0 -->|"#62;#62;, no x"| pattern_found_1' in drawn
    assert "pattern_found_1 --> pattern_found_end" in drawn
    shown = json.loads(describe(table.app.spec(), "json"))["tables"][0]["pattern"]
    assert shown["steps"] == "a{3} >> no x >> b"
    assert shown["conditions"] == {"a": "kind = 'a'", "b": "kind = 'b'", "x": "kind = 'x'"}
    assert (shown["within"], shown["skip"], shown["returns"]) == ("1 hour", "to_last(a)", {"n": "size(a)"})


def drawn(keyed, steps):
    """The lines of the pattern's own drawing, without its name."""
    lines = describe(keyed.pattern("found", steps, within="1 hour").app.spec(), "mermaid").splitlines()
    own = lines[next(n for n, line in enumerate(lines) if "subgraph" in line) : lines.index("  end")]
    return [line.strip().replace("pattern_found_", "").replace("#62;", ">") for line in own]


def test_a_step_in_two_places_is_drawn_twice(keyed):
    lines = drawn(keyed, A >> B >> A.then(C))
    titles = [f"""{n}["{name}<br>kind = '{name[0]}'"]""" for n, name in enumerate(["a", "b", "a (2)", "c"])]
    assert lines[2:6] == titles
    ways = ["begin --> 0", '0 -->|">>"| 1', '1 -->|">>"| 2', '2 -->|"then"| 3', "3 --> end"]
    assert lines[7:] == ways


def test_a_repetition_is_drawn_as_one(keyed):
    lines = drawn(keyed, step("a", times=3) >> (B >> step("a", times="+")).times(2))
    assert [line[:14] for line in lines[2:5]] == ['0["a#123;3#125', """1["b<br>kind =""", '2["a+ (2)<br>k']
    ways = [
        "begin --> 0",
        '0 -->|">>"| 0',
        '0 -->|">>"| 1',
        '1 -->|">>"| 2',
        '2 -->|">>"| 2',
        '2 -->|">>"| 1',
    ]
    assert lines[6:] == [*ways, "2 --> end"]


def test_alternatives_are_one_list():
    assert isinstance((A | B).sequence, Either)
    assert len((A | B | C).sequence.options) == 3


def test_python_s_own_operators_that_mean_something_else_are_refused() -> None:
    a, b = kf.step("a", "x > 1"), kf.step("b", "x > 2")
    with pytest.raises(BadOption, match="has no truth value") as error:
        _ = a and b
    assert error.value.hint == "a >> b, or a | b"
    with pytest.raises(BadOption, match="patterns have no order"):
        _ = a > b
