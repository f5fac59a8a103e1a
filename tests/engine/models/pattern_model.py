"""Which rows of a key match a pattern, by brute force in plain Python: the model of the property tests.

It imports nothing of keyfold, and nothing of Spark. Times are whole seconds. Every list of rows is tried, and
each pair of rows that are taken one after the other is judged by what lies between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Row:
    """One row of the stream; `u` is its number in the order of arrival."""

    k: str | None
    t: int
    c: str
    v: int
    u: int


Past: TypeAlias = Sequence[tuple[str, Row]]
"""What a match has taken so far: by which step, and the row."""
Test: TypeAlias = Callable[[Row, Past], bool]
Place: TypeAlias = tuple[int, ...]
"""Where in the pattern a step stands; what is repeated n times has n places."""


@dataclass(frozen=True)
class Condition:
    sql: str
    test: Test


@dataclass(frozen=True)
class Step:
    name: str
    condition: Condition


@dataclass(frozen=True)
class No:
    name: str
    condition: Condition


@dataclass(frozen=True)
class Chain:
    """Parts with how each follows: "next", "strict" or "any"; that of the first has no say."""

    parts: tuple[tuple[str, Tree], ...]


@dataclass(frozen=True)
class Either:
    options: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    body: Tree
    least: int
    most: int | None
    greedy: bool = True
    between: str = "next"
    until: Condition | None = None

    def copy(self, number: int) -> int:
        """The place of a repetition: without an end the last one comes again."""
        return number if self.most is not None else min(number, max(self.least, 1) - 1)


Tree: TypeAlias = Step | No | Chain | Either | Repeat


@dataclass(frozen=True)
class Way:
    """How a match may go on after a row: with a row of a step, or not at all (`step` is None)."""

    step: Step | None
    place: Place
    link: str
    never: tuple[Test, ...]
    """What no row may be from the one before on, that of the step included."""
    not_at_once: tuple[Test, ...]
    rivals: tuple[Way, ...]
    """Ways that go first, those of greedy repetitions: this one is gone once one of them can be taken."""
    then: Callable[[], list[Way]] = field(compare=False)


@dataclass(frozen=True)
class _Silent:
    """What has been passed since the last row that was taken."""

    never: tuple[Test, ...] = ()
    not_at_once: tuple[Test, ...] = ()
    rivals: tuple[Way, ...] = ()


_Rest: TypeAlias = Callable[[_Silent], list[Way]]


def begin(tree: Tree) -> list[Way]:
    return _ways(tree, (), "next", _Silent(), (), _end)


def _end(passed: _Silent) -> list[Way]:
    return [Way(None, (), "next", passed.never, passed.not_at_once, passed.rivals, list)]


def _ways(
    tree: Tree, place: Place, link: str, passed: _Silent, until: tuple[Test, ...], rest: _Rest
) -> list[Way]:
    """The ways into a part of the pattern, of which `rest` follows."""
    if isinstance(tree, Step):
        never = (*passed.never, *until)
        return [Way(tree, place, link, never, passed.not_at_once, passed.rivals, lambda: rest(_Silent()))]
    if isinstance(tree, Either):
        options = enumerate(tree.options)
        return [w for n, o in options for w in _ways(o, (*place, n), link, passed, until, rest)]
    if isinstance(tree, Chain):
        return _chained(tree, 0, place, link, passed, until, rest)
    assert isinstance(tree, Repeat)
    return _repeated(tree, 0, place, link, passed, until, rest)


def _chained(
    chain: Chain, at: int, place: Place, link: str, passed: _Silent, until: tuple[Test, ...], rest: _Rest
) -> list[Way]:
    if at == len(chain.parts):
        return rest(passed)
    own, part = chain.parts[at]
    near = own if at else link

    def on(passed: _Silent) -> list[Way]:
        return _chained(chain, at + 1, place, link, passed, until, rest)

    if not isinstance(part, No):
        return _ways(part, (*place, at), near, passed, until, on)
    if own == "strict":
        return on(replace(passed, not_at_once=(*passed.not_at_once, part.condition.test)))
    return on(replace(passed, never=(*passed.never, part.condition.test)))


def _repeated(
    repeat: Repeat, done: int, place: Place, link: str, passed: _Silent, until: tuple[Test, ...], rest: _Rest
) -> list[Way]:
    more: list[Way] = []
    if repeat.most is None or done < repeat.most:
        ends = until if repeat.until is None else (*until, repeat.until.test)
        more = _ways(
            repeat.body,
            (*place, repeat.copy(done)),
            repeat.between if done else link,
            passed,
            ends,
            lambda silent: _repeated(repeat, done + 1, place, link, silent, until, rest),
        )
    if done < repeat.least:
        return more
    rivals = (*passed.rivals, *more) if repeat.greedy else passed.rivals
    return more + rest(replace(passed, rivals=rivals))


@dataclass(frozen=True)
class Match:
    """Rows by number, each with the place that took it and the name of its step."""

    taken: tuple[tuple[int, Place, str], ...]
    ended: int
    timed_out: bool = False

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(i for i, _, _ in self.taken)

    @property
    def order(self) -> tuple[tuple[int, ...], tuple[Place, ...]]:
        return self.rows, tuple(p for _, p, _ in self.taken)


@dataclass
class Key:
    """The rows of one key, in order, and all lists of them that fit a beginning of the pattern."""

    rows: Sequence[Row]
    tree: Tree
    within: int | None
    partial: dict[tuple[tuple[int, Place, str], ...], list[Way]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ways = begin(self.tree)
        for first in range(len(self.rows)):
            for way in ways:
                if self._begins(way, first):
                    self._grow((), way, first)

    def _begins(self, way: Way, at: int) -> bool:
        fits = way.step is not None and way.step.condition.test(self.rows[at], ())
        return fits and not any(self._begins(rival, at) for rival in way.rivals)

    def _grow(self, before: tuple[tuple[int, Place, str], ...], way: Way, at: int) -> None:
        assert way.step is not None
        taken = (*before, (at, way.place, way.step.name))
        if taken in self.partial:
            return
        ways = self.partial[taken] = way.then()
        for following in range(at + 1, self._until(taken)):
            for way in ways:
                if self._takes(way, taken, following):
                    self._grow(taken, way, following)

    def _until(self, taken: Sequence[tuple[int, Place, str]]) -> int:
        """The number of the first row that is not within the time of a match."""
        first = self.rows[taken[0][0]]
        late = (
            i for i, row in enumerate(self.rows) if self.within is not None and row.t - first.t >= self.within
        )
        return min((i for i in late if i > taken[0][0]), default=len(self.rows))

    def _true(self, test: Test, taken: Sequence[tuple[int, Place, str]], at: int) -> bool:
        return test(self.rows[at], [(name, self.rows[i]) for i, _, name in taken])

    def _fits(self, way: Way, taken: Sequence[tuple[int, Place, str]], at: int) -> bool:
        return way.step is not None and self._true(way.step.condition.test, taken, at)

    def _gone(self, way: Way, taken: Sequence[tuple[int, Place, str]], to: int) -> bool:
        """Whether a row after the last one, up to `to`, has put an end to a way."""
        last = taken[-1][0]
        between = range(last + 1, to + 1)
        return (
            any(self._true(test, taken, i) for test in way.never for i in between)
            or (last < to and any(self._true(test, taken, last + 1) for test in way.not_at_once))
            or any(self._takes(rival, taken, i) for rival in way.rivals for i in between)
        )

    def _takes(self, way: Way, taken: Sequence[tuple[int, Place, str]], at: int) -> bool:
        """Whether a row may be the one that follows."""
        last = taken[-1][0]
        if not self._fits(way, taken, at) or self._gone(way, taken, at):
            return False
        if way.link == "strict":
            return at == last + 1
        return way.link == "any" or not any(self._fits(way, taken, i) for i in range(last + 1, at))

    def _waits(self, way: Way, taken: Sequence[tuple[int, Place, str]]) -> bool:
        """Whether a way is still there when the time of a match is over."""
        last, end = taken[-1][0], self._until(taken) - 1
        if self._gone(way, taken, end):
            return False
        if way.step is None or way.link == "any":
            return True
        if way.link == "strict":
            return end == last
        return not any(self._fits(way, taken, i) for i in range(last + 1, end + 1))

    def open(self, first: int, watermark: int | None) -> bool:
        """Whether rows that are still to come may complete a match that begins with a row."""
        if self.within is not None and (watermark is None or self.rows[first].t + self.within <= watermark):
            return False
        return any(
            (w.step is not None or w.never) and self._waits(w, taken)
            for taken, ways in self.partial.items()
            if taken[0][0] == first
            for w in ways
        )

    def completed(self, at: int) -> list[Match]:
        """Matches that end with a row."""
        return [
            Match(taken, self.rows[at].t)
            for taken, ways in self.partial.items()
            if taken[-1][0] == at and any(w.step is None and not w.never for w in ways)
        ]

    def over(self, timeouts: bool) -> list[Match]:
        """Those whose time ends them: nothing came that must not; and those that nothing more came for."""
        found = []
        for taken, ways in self.partial.items() if self.within is not None else ():
            end = self.rows[taken[0][0]].t + (self.within or 0)
            waiting = [w for w in ways if (w.step is not None or w.never) and self._waits(w, taken)]
            matched = any(w.step is None for w in waiting)
            # What is a match already does not run out.
            complete = any(w.step is None and not w.never for w in ways)
            if matched or (waiting and timeouts and not complete):
                found.append(Match(taken, end, timed_out=not matched))
        return found


def matches(
    rows: Iterable[Row],
    tree: Tree,
    within: int | None,
    skip: str = "past_last",
    timeouts: bool = False,
    watermark: int | None = None,
) -> list[Match]:
    """What is given for the rows of a key, which are in order. The time is all over, or at a watermark.

    The earliest beginning wins: one first row after the other is looked at, and as long as one may still be
    that of a match which rules others out, nothing is known of those after it.
    """
    key = Key(list(rows), tree, within)
    over = [m for m in key.over(timeouts) if watermark is None or m.ended <= watermark]
    ending = [*map(key.completed, range(len(key.rows))), over]
    given: list[Match] = []
    ruled: set[int] = set()
    for first in range(len(key.rows)):
        for match in (m for together in ending for m in sorted(together, key=lambda m: m.order)):
            if match.rows[0] == first and first not in ruled:
                given.append(match)
                ruled.update(() if match.timed_out else _ruled_out(match, skip))
        if skip not in ("none", "next") and first not in ruled and key.open(first, watermark):
            break
    return given


def _ruled_out(match: Match, skip: str) -> Iterator[int]:
    """The rows with which no other match may begin."""
    first, last = match.rows[0], match.rows[-1]
    if skip == "past_last":
        yield from range(last + 1)
    elif skip == "next":
        yield first
    elif skip != "none":
        kind, step = skip.rstrip(")").split("(")
        rows = [i for i, _, name in match.taken if name == step]
        yield from range((rows[0] if kind == "to_first" else rows[-1]) if rows else 0)


@dataclass
class Stream:
    """Rows as they come: those that the watermark has passed are too late, and the others are in order."""

    late: int
    arrived: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    too_late: list[Row] = field(default_factory=list)
    watermark: int | None = None

    def push(self, rows: Sequence[Row]) -> None:
        self.arrived += rows
        for row in rows:
            if self.watermark is not None and row.t < self.watermark:
                self.too_late.append(row)
            else:
                self.rows.append(row)
        self.advance(max(r.t for r in rows))

    def advance(self, to: int) -> None:
        self.watermark = to - self.late if self.watermark is None else max(to - self.late, self.watermark)

    def all(self) -> dict[str, list[Row]]:
        """The rows of each key as they came."""
        found: dict[str, list[Row]] = {}
        for row in self.arrived:
            if row.k is not None:
                found.setdefault(row.k, []).append(row)
        return found

    def settled(self) -> dict[str, list[Row]]:
        """The rows of each key that the watermark has passed, in order."""
        found: dict[str, list[Row]] = {}
        for row in sorted(self.rows, key=lambda r: (r.t, r.u)):
            if row.k is not None and self.watermark is not None and row.t < self.watermark:
                found.setdefault(row.k, []).append(row)
        return found
