"""The table that a pattern is made into, walked in plain Python, gives what brute force finds.

No Spark is needed for it, so that hundreds of patterns are tried; what the kernel makes of the table, with
`skip`, `within` and crashes, is tried by fewer, in tests/engine/test_pattern_model.py.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Way, automaton
from keyfold.plan.pattern.reachability import unreachable
from keyfold.plan.pattern.syntax import PatternSpec
from tests.engine.models.pattern_model import Either, Key, No, Past, Repeat, Row, Step, Test, Tree
from tests.engine.models.pattern_random import Maker, declared, rows_of_key

Taken = tuple[tuple[int, int], ...]
"""Rows by number, each with the position that took it."""
WITHIN = 15


def conditions(tree: Tree) -> dict[str, Test]:
    """Conditions by their text."""
    if isinstance(tree, Step | No):
        return {tree.condition.sql: tree.condition.test}
    if isinstance(tree, Repeat):
        until = {} if tree.until is None else {tree.until.sql: tree.until.test}
        return conditions(tree.body) | until
    parts = tree.options if isinstance(tree, Either) else [part for _, part in tree.parts]
    return {sql: test for part in parts for sql, test in conditions(part).items()}


def any_row(row: Row, past: Past) -> bool:
    return True


class Walk:
    """All ways of rows through the table."""

    def __init__(self, tree: Tree, table: Automaton, rows: list[Row]) -> None:
        known = conditions(tree)
        self.table = table
        self.tests = [
            any_row if condition.expression is None else known[str(condition.expression)]
            for condition in self.table.conditions
        ]
        self.rows = rows
        self.reached: set[int] = set()
        self.completed: set[Taken] = set()
        self.waiting: set[Taken] = set()
        """Those that are complete if nothing comes any more that must not."""
        for first in range(len(rows)):
            taken, _ = self._row(self.table.begin, set(range(len(self.table.begin))), False, (), first)
            for way in taken:
                self._from(((first, way.target),))

    def _from(self, taken: Taken) -> None:
        ways = self.table.ways[taken[-1][1]]
        self.reached.add(taken[-1][1])
        if any(way.target == ACCEPT and not way.ends for way in ways):
            self.completed.add(taken)
        alive = {n for n, way in enumerate(ways) if way.target != ACCEPT or way.ends}
        for at in range(taken[-1][0] + 1, len(self.rows)):
            if self.rows[at].t - self.rows[taken[0][0]].t >= WITHIN:
                break
            took, alive = self._row(ways, alive, at == taken[-1][0] + 1, taken, at)
            for target in {way.target for way in took}:
                self._from((*taken, (at, target)))
        if any(ways[n].target == ACCEPT for n in alive):
            self.waiting.add(taken)

    def _row(
        self, ways: tuple[Way, ...], alive: set[int], at_once: bool, taken: Taken, at: int
    ) -> tuple[list[Way], set[int]]:
        """The ways that take a row, and those that are left after it."""
        past = [(self.step(position), self.rows[i]) for i, position in taken]
        true = {c for c, test in enumerate(self.tests) if test(self.rows[at], past)}
        took: set[int] = set()
        left = set(alive)
        for n in sorted(alive):
            way = ways[n]
            dead = true & {*way.ends, *(way.at_once if at_once else ())} or took & {*way.after}
            fits = way.target != ACCEPT and self.table.positions[way.target] in true
            if fits and not dead:
                took.add(n)
            if dead or (fits and way.link != "any") or (way.link == "strict" and way.target != ACCEPT):
                left.discard(n)
        return [ways[n] for n in sorted(took)], left

    def step(self, position: int) -> str:
        return self.table.steps[self.table.positions[position]]

    def shown(self, found: set[Taken]) -> list[list[tuple[int, str]]]:
        return sorted([(i, self.step(position)) for i, position in taken] for taken in found)


def some_rows(chance: Random) -> list[Row]:
    return [replace(r, u=n) for n, r in enumerate(rows_of_key(chance, "k", chance.randrange(3, 8), 20))]


@pytest.mark.parametrize("seed", range(4))
def test_the_table_of_a_random_pattern_gives_what_brute_force_finds(seed: int) -> None:
    chance = Random(f"tables {seed}")
    for _ in range(100):
        tree = Maker(chance).tree()
        table = automaton(PatternSpec(declared(tree).sequence, None))
        for _ in range(6):
            rows = some_rows(chance)
            key, walk = Key(rows, tree, WITHIN), Walk(tree, table, rows)
            completed = [m for at in range(len(rows)) for m in key.completed(at)]
            for found, expected in ((walk.completed, completed), (walk.waiting, key.over(timeouts=False))):
                wanted = sorted([(i, name) for i, _, name in match.taken] for match in expected)
                assert walk.shown(found) == wanted, f"{declared(tree)!r} {tree} {rows}"


def test_a_step_that_is_said_never_to_come_never_does() -> None:
    chance, found = Random("never"), 0
    for _ in range(150):
        tree = Maker(chance, past=0).any_tree()
        table = automaton(PatternSpec(declared(tree).sequence, None))
        free, conditions = chance.randrange(len(table.steps)), list(table.conditions)
        conditions[free] = replace(conditions[free], expression=None)
        table = replace(table, conditions=tuple(conditions))
        if never := unreachable(table):
            found += 1
            for _ in range(20):
                walk = Walk(tree, table, some_rows(chance))
                assert not walk.reached & never, f"{declared(tree)!r} {never} {table} {walk.rows}"
    assert found > 20
