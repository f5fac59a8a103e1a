"""`make chaos`: kills an app with every kind of table, then compares each table with that of a clean run.

Files arrive all the while. Python, its JVM, or both are killed in turn with kill -9: while the app starts,
and at any moment after that. At the end the app processes what is left, and a second one processes the same
files undisturbed. Views, rejected and late rows of the two must be the same.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos import compare, events
from chaos.life import TARGETS, Life, committed, drain, under_way
from keyfold.engine.polling import wait_until

# These come after the last kill: the watermark of two streams moves on once both have rows again.
LAST_FILES = 2
START_SECONDS = 300
MOST_SECONDS = 120


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=...", description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="how often the app is killed")
    parser.add_argument("--rows", type=int, default=400, help="rows per file")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the rows and of the moments; else a new one"
    )
    parser.add_argument("--keep", type=Path, default=None, help="a directory for all files, kept afterwards")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    place = given.keep or Path(tempfile.mkdtemp(prefix="keyfold-chaos-"))
    say(f"seed {seed}, in {place}")
    report = campaign(place, given.kills, given.rows, seed)
    print(json.dumps(report)) if given.json else show(report)
    if report["differences"]:
        say(f"the homes and all that the app said are in {place}")
        raise SystemExit(1)
    if given.keep is None:
        shutil.rmtree(place)


def campaign(place: Path, kills: int, rows: int, seed: int) -> dict[str, Any]:
    """The whole campaign as data."""
    files, killed, clean = place / "files", place / "killed", place / "clean"
    count = kills + LAST_FILES
    events.generate(files, count, rows, seed)
    for run in (killed, clean):
        for stream in events.STREAMS:
            (run / "data" / stream).mkdir(parents=True)
    begun = time.monotonic()
    exits, batches = kill_all(files, killed, kills, random.Random(seed))
    for number in range(kills, count):
        events.arrive(files, killed / "data", number)
    drain(killed)
    say("a clean run on the same files")
    for number in range(count):
        events.arrive(files, clean / "data", number)
    drain(clean)
    compared = compare.compare(clean, killed, compare.tables())
    return {
        "seed": seed,
        "kills": kills,
        "exits": {target: dict(found) for target, found in exits.items()},
        "batches_killed": batches,
        "seconds": round(time.monotonic() - begun),
        "compared": {one.name: one.rows for one in compared if one.rows or one.differences},
        "differences": {one.name: list(one.differences) for one in compared if one.differences},
    }


def kill_all(
    files: Path, place: Path, kills: int, chance: random.Random
) -> tuple[dict[str, Counter[int]], int]:
    """Exit codes of Python by what was killed, and how many batches were under way."""
    exits: dict[str, Counter[int]] = {target: Counter() for target in TARGETS}
    batches, home = 0, place / ".keyfold"
    for number in range(kills):
        target, starting = TARGETS[number % len(TARGETS)], number % 5 == 4
        events.arrive(files, place / "data", number)
        life = Life(place, number)
        if starting:
            wait_until(lambda life=life: life.up() or life.ended(), chance.uniform(1, 15))
        elif not wait_until(lambda life=life: life.up() or life.ended(), START_SECONDS):
            raise SystemExit(f"the app was not up within {START_SECONDS} s; see {life.said}")
        else:
            # By batches and not by the clock: a slow machine would never come to its second one.
            more = committed(home) + chance.choice((0, 10, 60)) * chance.random()
            wait_until(lambda life=life, more=more: life.ended() or committed(home) >= more, MOST_SECONDS)
            wait_until(life.ended, 2 * chance.random())
        if life.ended():
            raise SystemExit(f"the app ended by itself with {life.process.returncode}; see {life.said}")
        code = life.kill(target)
        hit = under_way(home)
        exits[target][code], batches = exits[target][code] + 1, batches + hit
        when = "while it started" if starting else "while it ran"
        done = committed(home)
        what = f"{target} {when}, exit {code}, {hit} batches under way, {done} done"
        say(f"kill {number + 1} of {kills}: {what}")
    return exits, batches


def show(report: dict[str, Any]) -> None:
    """The report as a table, and the first differences."""
    console = Console()
    table = Table("compared", "rows", "differences", title=f"{report['kills']} kills, seed {report['seed']}")
    for name, rows in report["compared"].items():
        table.add_row(name, f"{rows:,}", str(len(report["differences"].get(name, []))))
    console.print(table)
    for name, found in report["differences"].items():
        console.print(f"{name}:", *found[:5], sep="\n  ", markup=False, soft_wrap=True)
    total = sum(map(len, report["differences"].values()))
    console.print(
        f"{total} differences; {report['batches_killed']} batches were under way at the kills; "
        f"exit codes {report['exits']}; {report['seconds']} s"
    )


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
