"""Kills the app: Python, its JVM or both, while it starts or at any moment after that."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

from chaos.life import TARGETS, Life, Run, committed, under_way
from keyfold.engine.polling import wait_until

START_SECONDS = 300
MOST_SECONDS = 120


class Killer:
    """So many kills, and what they did: exit codes of Python by what was killed, and batches under way."""

    def __init__(self, kills: int, chance: random.Random) -> None:
        self.kills, self._chance = kills, chance
        self.exits: dict[str, Counter[int]] = {target: Counter() for target in TARGETS}
        self.batches = 0

    def kill(self, run: Run, number: int) -> None:
        """Starts the app, and kills it."""
        target, starting = TARGETS[number % len(TARGETS)], number % 5 == 4
        life = Life(run, number)
        self._wait(run, life, starting)
        if life.ended():
            raise SystemExit(f"the app ended by itself with {life.process.returncode}; see {life.said}")
        code, hit = life.kill(target), under_way(run.home)
        self.exits[target][code], self.batches = self.exits[target][code] + 1, self.batches + hit
        when = "while it started" if starting else "while it ran"
        what = f"{target} {when}, exit {code}, {hit} batches under way, {committed(run.home)} done"
        say(f"kill {number + 1} of {self.kills}: {what}")

    def _wait(self, run: Run, life: Life, starting: bool) -> None:
        chance = self._chance
        if starting:
            wait_until(lambda: life.up() or life.ended(), chance.uniform(1, 15))
            return
        if not wait_until(lambda: life.up() or life.ended(), START_SECONDS):
            raise SystemExit(f"the app was not up within {START_SECONDS} s; see {life.said}")
        # By batches and not by the clock: a slow machine would never come to its second one.
        more = committed(run.home) + chance.choice((0, 10, 60)) * chance.random()
        wait_until(lambda: life.ended() or committed(run.home) >= more, MOST_SECONDS)
        wait_until(life.ended, 2 * chance.random())


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
