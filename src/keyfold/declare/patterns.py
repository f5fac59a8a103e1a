"""`kf.step`, `kf.no` and `Pattern`: sequences of rows, for `KeyedStream.pattern`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from keyfold.errors import BadOption
from keyfold.plan.call_site import call_site
from keyfold.plan.nodes import Expr, Site
from keyfold.plan.pattern.syntax import (
    CONTIGUITY_SYNTAX,
    Atom,
    Chain,
    Contiguity,
    Either,
    No,
    Repeat,
    Sequence,
)
from keyfold.plan.validate import arguments

Times: TypeAlias = int | tuple[int, int | None] | Literal["+", "*", "?"]
"""How often: 3, from 2 to 4, at least once, any number of times, at most once."""


@dataclass(frozen=True)
class Pattern:
    """A sequence of steps, for `pattern`. `a >> b | c` is `(a >> b) | c`: put alternatives in parentheses.

    >>> kf.step("login", "kind = 'login'") >> kf.step("pay", "kind = 'pay'", times=2)
    <pattern login >> pay{2}>
    """

    sequence: Sequence

    def __rshift__(self, other: Pattern) -> Pattern:
        """Followed by the next row that matches; rows between are skipped."""
        return self._follow("relaxed", other)

    def then(self, other: Pattern) -> Pattern:
        """Followed directly by the next row of the key, which must match."""
        return self._follow("strict", other)

    def any(self, other: Pattern) -> Pattern:
        """Followed by any later row that matches: a match for each of them."""
        return self._follow("any", other)

    def __or__(self, other: Pattern) -> Pattern:
        """Either sequence."""
        mine, theirs = (_options(p) for p in (self, _check_pattern(other, "|", call_site())))
        return Pattern(Either((*mine, *theirs)))

    def times(
        self,
        times: Times,
        *,
        greedy: bool = True,
        strict: bool = False,
        combinations: bool = False,
        until: Expr | None = None,
    ) -> Pattern:
        """Repeats the whole sequence; the options are those of `step`."""
        return _repeat(self.sequence, times, greedy, strict, combinations, until, call_site())

    def __repr__(self) -> str:
        from keyfold.plan.describe.phrases import sequence_words

        return f"<pattern {sequence_words(self.sequence)}>"

    def __bool__(self) -> bool:
        # `a and b` would silently be b alone.
        raise BadOption("a pattern has no truth value", where=call_site(), hint="a >> b, or a | b")

    def __gt__(self, other: object) -> Pattern:
        raise BadOption("patterns have no order", where=call_site(), hint="a >> b")

    def _follow(self, contiguity: Contiguity, other: Pattern) -> Pattern:
        site = call_site()
        after = _check_pattern(other, CONTIGUITY_SYNTAX[contiguity], site).sequence
        if isinstance(self.sequence, No) or (isinstance(after, No) and contiguity == "any"):
            problem = f"kf.no must not {'begin a pattern' if isinstance(self.sequence, No) else 'follow any'}"
            raise BadOption(problem, where=site, hint="a >> kf.no(...) >> b")
        # One flat chain: a negation applies between its neighbours, wherever the parentheses are.
        mine, theirs = (s if isinstance(s, Chain) else Chain(s, ()) for s in (self.sequence, after))
        return Pattern(Chain(mine.first, (*mine.rest, (contiguity, theirs.first), *theirs.rest)))


def step(
    name: str,
    condition: Expr | None = None,
    *,
    times: Times = 1,
    greedy: bool = True,
    strict: bool = False,
    combinations: bool = False,
    until: Expr | None = None,
) -> Pattern:
    """A row for which the condition is true, or several: `times` is 3, (2, 4), "+", "*" or "?".

    A repeated step takes the next rows that match; with `strict` they must directly follow each other, with
    `combinations` any later rows may be taken. A greedy step takes as many rows as it can before the
    following step gets one; a row for which `until` is true ends it. In the condition plain names are the
    row's columns; the name of an earlier step is the array of its rows, `prev` the row taken before and
    `first` the first row of the match.

    >>> kf.step("probe", "amount < 1", times=3) >> kf.step("strike", "amount > 100 * probe[0].amount")
    <pattern probe{3} >> strike>
    """
    site = call_site()
    what = f"the condition of step {name!r}"
    tested = None if condition is None else arguments.expression(condition, what, site)
    atom = Atom(arguments.identifier(name, "a step", site), tested, site)
    return _repeat(atom, times, greedy, strict, combinations, until, site)


def no(name: str, condition: Expr) -> Pattern:
    """No row for which the condition is true, between the steps before and after it.

    `a >> kf.no(...) >> b`: no such row between them. `a.then(kf.no(...)) >> b`: the row directly after `a` is
    not such a row. At the end of a pattern: no such row until `within` is over.
    """
    site = call_site()
    tested = arguments.expression(condition, f"the condition of no {name!r}", site)
    return Pattern(No(arguments.identifier(name, "a step", site), tested, site))


def _repeat(
    body: Sequence,
    times: object,
    greedy: object,
    strict: object,
    combinations: object,
    until: object,
    site: Site | None,
) -> Pattern:
    least, most = _bounds(times, site)
    flags = {"greedy": greedy, "strict": strict, "combinations": combinations}
    for name, value in flags.items():
        arguments.flag(value, name, site)
    if strict and combinations:
        raise BadOption("strict and combinations exclude each other", where=site, hint="one of them")
    between: Contiguity = "strict" if strict else "any" if combinations else "relaxed"
    ends = None if until is None else arguments.expression(until, "until", site)
    if (least, most) == (1, 1):
        if ends is not None or strict or combinations or not greedy:
            given = "until" if ends is not None else next(n for n, v in flags.items() if v != (n == "greedy"))
            problem = f"`{given}` needs a repeated step, and times is 1"
            raise BadOption(problem, where=site, hint='times=3, times=(2, 4), times="+"')
        return Pattern(body)
    if isinstance(body, No):
        raise BadOption(
            "kf.no must not be repeated", where=site, hint="it already applies to all rows between"
        )
    return Pattern(Repeat(body, least, most, bool(greedy), between, ends, site))


def _bounds(times: object, site: Site | None) -> tuple[int, int | None]:
    named: dict[object, tuple[int, int | None]] = {"+": (1, None), "*": (0, None), "?": (0, 1)}
    if isinstance(times, str) and times in named:
        return named[times]
    pair = (times, times) if isinstance(times, int) else times
    hint = '3, (2, 4), (2, None) for two or more, "+", "*" or "?"'
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(_count(n) for n in pair) or pair[0] is None:
        raise BadOption(
            "times is not a number of repetitions", where=site, given=f"times={times!r}", hint=hint
        )
    least, most = pair
    if most is not None and least > most:
        problem = f"times has a minimum of {least} above its maximum of {most}"
        raise BadOption(problem, where=site, given=f"times={times!r}", hint=f"times=({most}, {least})")
    if most == 0:
        problem = "times must not be 0"
        raise BadOption(
            problem, where=site, given=f"times={times!r}", hint="kf.no(...) for rows that must not occur"
        )
    return least, most


def _count(n: object) -> bool:
    return n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= 0)


def _check_pattern(other: object, what: str, site: Site | None) -> Pattern:
    return arguments.instance(
        other, Pattern, f"{what} takes a step or a pattern", "kf.step(name, condition)", site
    )


def _options(pattern: Pattern) -> tuple[Sequence, ...]:
    if isinstance(pattern.sequence, No):
        raise BadOption(
            "kf.no must not be an alternative", where=pattern.sequence.site, hint="a >> kf.no(...) >> b"
        )
    return pattern.sequence.options if isinstance(pattern.sequence, Either) else (pattern.sequence,)
