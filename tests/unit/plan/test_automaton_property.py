"""The automaton of a pattern, run in plain Python, finds what brute force finds.

It needs no Spark, so that hundreds of patterns are tried; the kernel's use of the automaton, with `skip`,
`within` and crashes, is tried with fewer patterns, in tests/engine/pattern/test_model.py.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Transition, automaton
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
    """All paths of rows through the automaton."""

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
        """Those that complete when `within` expires without a row that their negation forbids."""
        for first in range(len(rows)):
            taken, _ = self._row(self.table.initial, set(range(len(self.table.initial))), False, (), first)
            for transition in taken:
                self._from(((first, transition.target),))

    def _from(self, taken: Taken) -> None:
        transitions = self.table.transitions[taken[-1][1]]
        self.reached.add(taken[-1][1])
        if any(t.target == ACCEPT and not t.disabled_by for t in transitions):
            self.completed.add(taken)
        enabled = {n for n, t in enumerate(transitions) if t.target != ACCEPT or t.disabled_by}
        for at in range(taken[-1][0] + 1, len(self.rows)):
            if self.rows[at].t - self.rows[taken[0][0]].t >= WITHIN:
                break
            took, enabled = self._row(transitions, enabled, at == taken[-1][0] + 1, taken, at)
            for target in {transition.target for transition in took}:
                self._from((*taken, (at, target)))
        if any(transitions[n].target == ACCEPT for n in enabled):
            self.waiting.add(taken)

    def _row(
        self, transitions: tuple[Transition, ...], enabled: set[int], adjacent: bool, taken: Taken, at: int
    ) -> tuple[list[Transition], set[int]]:
        """The transitions that take a row, and those that are enabled after it."""
        past = [(self.step(position), self.rows[i]) for i, position in taken]
        true = {c for c, test in enumerate(self.tests) if test(self.rows[at], past)}
        took: set[int] = set()
        left = set(enabled)
        for n in sorted(enabled):
            t = transitions[n]
            disabling = {*t.disabled_by, *(t.disabled_by_next if adjacent else ())}
            dead = true & disabling or took & {*t.yields_to}
            fits = t.target != ACCEPT and self.table.positions[t.target] in true
            if fits and not dead:
                took.add(n)
            if dead or (fits and t.contiguity != "any") or (t.contiguity == "strict" and t.target != ACCEPT):
                left.discard(n)
        return [transitions[n] for n in sorted(took)], left

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
