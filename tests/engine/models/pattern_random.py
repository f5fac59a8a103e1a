"""Random patterns for the property tests, for the model and as an app declares them."""

from __future__ import annotations

from random import Random
from typing import Any

import keyfold as kf
from keyfold.plan.pattern.automaton import automaton
from keyfold.plan.pattern.reachability import unreachable
from keyfold.plan.pattern.syntax import PatternSpec
from tests.engine.models.pattern_model import (
    Chain,
    Condition,
    Either,
    No,
    Past,
    Repeat,
    Row,
    Step,
    Test,
    Tree,
)

LETTERS = "ABCD"
MANY: list[tuple[int, int | None]] = [(0, 1), (1, None), (0, None), (2, 2), (3, 3), (1, 2), (0, 2), (2, None)]


def of_letters(letters: str) -> Condition:
    listed = ", ".join(f"'{c}'" for c in letters)
    return Condition(f"c in ({listed})", lambda row, past: row.c in letters)


def taken(past: Past, name: str) -> list[Row]:
    return [row for step, row in past if step == name]


def own_condition(chance: Random) -> Condition:
    """A condition that a row alone decides."""
    if chance.random() < 0.15:
        low = chance.randrange(1, 4)
        return Condition(f"v > {low}", lambda row, past: row.v > low)
    return of_letters("".join(sorted(chance.sample(LETTERS, k=chance.choice([1, 1, 1, 2])))))


def past_condition(chance: Random, names: list[str]) -> Condition:
    """A condition on what was taken before; null, and so not true, where there is nothing."""
    own, name = own_condition(chance), chance.choice(names)
    kinds: list[tuple[str, Test]] = [
        ("v >= prev.v", lambda row, past: bool(past) and row.v >= past[-1][1].v),
        ("v <> first.v", lambda row, past: bool(past) and row.v != past[0][1].v),
        ("prev is null or c <> prev.c", lambda row, past: not past or row.c != past[-1][1].c),
        (
            f"{name}[0].v <= v",
            lambda row, past: bool(taken(past, name)) and taken(past, name)[0].v <= row.v,
        ),
        (
            f"{name}[1].v is null or {name}[1].v < v",
            lambda row, past: len(taken(past, name)) < 2 or taken(past, name)[1].v < row.v,
        ),
        (f"size({name}) < 2", lambda row, past: len(taken(past, name)) < 2),
        (
            f"coalesce(array_avg({name}.v), 0) <= v",
            lambda row, past: sum(r.v for r in taken(past, name)) <= row.v * max(len(taken(past, name)), 1),
        ),
        (f"array_sum({name}.v) < 6", lambda row, past: sum(r.v for r in taken(past, name)) < 6),
    ]
    sql, test = chance.choice(kinds)
    return Condition(f"({own.sql}) and ({sql})", lambda row, past: own.test(row, past) and test(row, past))


class Maker:
    """A random pattern: its shape first, then conditions that may speak of its steps."""

    def __init__(self, chance: Random, past: float = 0.3) -> None:
        self.chance = chance
        self.names = [f"s{n}" for n in range(chance.randrange(2, 5))]
        self.conditions = {
            name: past_condition(chance, self.names) if chance.random() < past else own_condition(chance)
            for name in self.names
        }
        self.past = past
        self.left = list(self.names)
        self.nos = 0

    def tree(self) -> Tree:
        """The whole; all names are in it, so that conditions may speak of each, and it can be declared."""
        while unreachable(automaton(PatternSpec(declared(made := self.any_tree()).sequence, None))):
            pass
        return made

    def any_tree(self) -> Tree:
        """One that may have steps that can never come."""
        while True:
            self.left, self.nos = list(self.names), 0
            made = self._chain(0, self.chance.randrange(2, 4), ends=True)
            if not optional(made) and not self.left and not swallowed(made):
                return made

    def _any_condition(self) -> Condition:
        return (
            past_condition(self.chance, self.names)
            if self.chance.random() < self.past
            else own_condition(self.chance)
        )

    def _chain(self, depth: int, length: int, ends: bool = False) -> Tree:
        parts: list[tuple[str, Tree]] = [("next", self._part(depth))]
        for _ in range(1, length):
            if self.chance.random() < 0.2:
                parts.append((self.chance.choice(["next", "next", "strict"]), self._no()))
            parts.append((self.chance.choice(["next", "next", "strict", "any"]), self._part(depth)))
        if ends and self.chance.random() < 0.2:
            parts.append(("next", self._no()))
        return Chain(tuple(parts))

    def _no(self) -> No:
        self.nos += 1
        return No(f"n{self.nos}", self._any_condition())

    def _part(self, depth: int) -> Tree:
        kind = self.chance.random()
        if depth < 2 and kind < 0.12:
            options = tuple(
                self._chain(depth + 1, 2) if self.chance.random() < 0.4 else self._part(depth + 1)
                for _ in range(2)
            )
            return self._perhaps_repeated(Either(options), 0.3)
        if depth < 2 and kind < 0.27:
            return self._perhaps_repeated(self._chain(depth + 1, 2), 0.8)
        name = self.left.pop(0) if self.left else self.chance.choice(self.names)
        return self._perhaps_repeated(Step(name, self.conditions[name]), 0.45)

    def _perhaps_repeated(self, body: Tree, how_often: float) -> Tree:
        if self.chance.random() >= how_often or optional(body):
            return body
        least, most = self.chance.choice(MANY)
        until = self._any_condition() if self.chance.random() < 0.15 else None
        between = self.chance.choice(["next", "next", "strict", "any"])
        return Repeat(body, least, most, self.chance.random() < 0.6, between, until)


def optional(tree: Tree) -> bool:
    """Whether it can be matched without a row."""
    if isinstance(tree, Chain):
        return all(optional(part) for _, part in tree.parts)
    if isinstance(tree, Either):
        return any(optional(option) for option in tree.options)
    return isinstance(tree, No) or (isinstance(tree, Repeat) and (tree.least == 0 or optional(tree.body)))


def swallowed(tree: Tree) -> bool:
    """Whether only what may be left out follows a `then(no)`, so that the pattern may end with it."""
    parts = tree.parts if isinstance(tree, Chain) else ()
    for at, (link, part) in enumerate(parts):
        if isinstance(part, No) and link == "strict" and all(optional(p) for _, p in parts[at:]):
            return True
        if swallowed(part):
            return True
    inner = tree.options if isinstance(tree, Either) else (tree.body,) if isinstance(tree, Repeat) else ()
    return any(swallowed(part) for part in inner)


def declared(tree: Tree) -> kf.Pattern:
    """The pattern in keyfold's words."""
    if isinstance(tree, Step):
        return kf.step(tree.name, tree.condition.sql)
    if isinstance(tree, No):
        return kf.no(tree.name, tree.condition.sql)
    if isinstance(tree, Either):
        made = declared(tree.options[0])
        for option in tree.options[1:]:
            made = made | declared(option)
        return made
    if isinstance(tree, Chain):
        made = declared(tree.parts[0][1])
        for link, part in tree.parts[1:]:
            after = declared(part)
            made = (
                made >> after if link == "next" else made.then(after) if link == "strict" else made.any(after)
            )
        return made
    options: dict[str, Any] = {"greedy": tree.greedy, "strict": tree.between == "strict"}
    options |= {"combinations": tree.between == "any", "until": tree.until and tree.until.sql}
    return declared(tree.body).times(
        tree.most if tree.least == tree.most else (tree.least, tree.most), **options
    )


def rows_of_key(chance: Random, k: str | None, length: int, span: int) -> list[Row]:
    """Rows with ties; their numbers are given when they are put in the order in which they come."""
    times = sorted(chance.randrange(span) for _ in range(length))
    return [Row(k, t, chance.choice(LETTERS), chance.randrange(5), 0) for t in times]
