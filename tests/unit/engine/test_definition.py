"""What state on disk depends on, as far as no Spark is needed to tell."""

from __future__ import annotations

from typing import Any, cast

import keyfold as kf
from keyfold.engine.compile import pattern as compile_pattern
from keyfold.engine.compile.table import Compiled
from keyfold.engine.recovery import definition
from keyfold.plan.nodes import TableSpec

SCHEMA = "card int, kind string, at timestamp, seen timestamp"
A, B = (kf.step(name, f"kind = '{name}'") for name in "ab")


def cards(time: str | None = "at") -> kf.Stream:
    return kf.App("bank").stream("cards", kf.rows([]), SCHEMA, time=time)


def pattern(steps: kf.Pattern = A >> B, time: str | None = "at", **options: Any) -> TableSpec:
    return cards(time).by("card").pattern("found", steps, within="1 hour", **options).spec


def meaning(spec: TableSpec) -> dict[str, str]:
    """Without what the kernel tells."""
    return definition.meaning_of(Compiled(spec, cast(Any, None), {}, "null", cast(Any, None), True, None))


def test_differences_show_times_as_lengths_and_not_in_milliseconds() -> None:
    def ttl(length: str | None) -> dict[str, str]:
        return meaning(cards().by("card").table("t", n="count(*)", ttl=length).spec)

    assert definition.differences(ttl("30 days"), ttl("90 minutes")) == [
        "ttl: 30 days on disk, 1 hour 30 minutes now"
    ]
    assert definition.differences(ttl(None), ttl("500 ms"))[0] == "ttl: nothing on disk, 500 ms now"


def test_the_limit_of_a_pattern_may_change() -> None:
    specs = [pattern(limit=limit).body for limit in (10, 20)]
    assert specs[0] != specs[1]
    assert len({compile_pattern.meaning(cast(Any, spec)) for spec in specs}) == 1


def test_where_the_function_of_an_until_stands_is_no_part_of_a_pattern() -> None:
    one = kf.step("a", "kind = 'a'", times="+", until=lambda: None)
    other = kf.step("a", "kind = 'a'", times="+", until=lambda: None)
    text, same = (compile_pattern.meaning(cast(Any, pattern(steps >> B).body)) for steps in (one, other))
    assert text == same == "a+ until ... >> b, within 1 hour, skip past_last"
    assert "test_definition.py" in repr(one)


def test_what_a_pattern_does_is_a_part_of_it() -> None:
    until = kf.step("a", "kind = 'a'", times="+", until="kind = 'u'") >> B
    without = kf.step("a", "kind = 'a'", times="+") >> B
    specs = [
        *(pattern(steps) for steps in (A >> B, A.then(B), A.any(B), until, without)),
        *(pattern(**options) for options in ({"skip": "none"}, {"order": "arrival"}, {"timeouts": True})),
    ]
    assert len({compile_pattern.meaning(cast(Any, spec.body)) for spec in specs}) == len(specs)


def test_the_time_of_a_stream_is_a_part_of_its_patterns() -> None:
    assert meaning(pattern()) == {"time:cards": "at"}
    assert meaning(pattern(time="seen")) == {"time:cards": "seen"}
    assert meaning(pattern(time=None)) == {"time:cards": "arrival"}


def test_whether_a_table_can_be_idle_is_a_part_of_it_and_its_length_is_not() -> None:
    def joined(**options: Any) -> TableSpec:
        other = cards()
        both = other.join(
            other.app.stream("more", kf.rows([]), SCHEMA, time="at"), on="card", within="1 hour"
        )
        return both.by("card").table("found", n="count(*)", **options).spec

    for declared in (pattern, joined):
        never, soon, later = (meaning(declared(idle=idle)) for idle in (None, "1 minute", "1 hour"))
        assert soon == later == never | {"idle": "yes"}
    closing = cards().by("card").tumbling("1 hour").table("found", n="count(*)", idle="1 minute").spec
    assert meaning(closing)["idle"] == "yes"
