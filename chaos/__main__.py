"""`make chaos`: kills an app with every kind of table, then compares each table with that of a clean run.

Files and messages of Kafka arrive all the while. Python, its JVM, or both are killed in turn with kill -9:
while the app starts, and at any moment after that. Halfway the app processes its input, then keys are
erased and late rows replayed; at the end late rows are replayed once more. A second app has the same rows
and commands, and nobody kills it. Views, rejected and late rows of the two must be the same.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos import compare, events, upkeep
from chaos.killer import Killer, say
from chaos.life import Run
from keyfold.engine.kafka import topics
from keyfold.engine.kafka.broker import Broker
from keyfold.settings import load

# These come after the last kill: the watermark of two streams moves on once both have rows again.
LAST_FILES = 2


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
    files, count = place / "files", kills + LAST_FILES
    events.generate(files, count, rows, seed)
    begun = time.monotonic()
    with Broker(place / "broker", load()) as broker:
        killer = Killer(kills, random.Random(seed))
        killed, clean = (Run(place / name, broker.address) for name in ("killed", "clean"))
        replayed = live(killed, files, count, killer)
        say("a clean run on the same rows")
        undisturbed = live(clean, files, count, None)
    compared = compare.compare(clean.place, killed.place, compare.tables(), (undisturbed, replayed))
    return {
        "seed": seed,
        "kills": kills,
        "exits": {target: dict(found) for target, found in killer.exits.items()},
        "batches_killed": killer.batches,
        "seconds": round(time.monotonic() - begun),
        "compared": {one.name: one.rows for one in compared if one.rows or one.differences},
        "differences": {one.name: list(one.differences) for one in compared if one.differences},
    }


def live(run: Run, files: Path, count: int, killer: Killer | None) -> Counter[str]:
    """Lets an app process all rows, as they arrive or halves of them; returns what became of late rows."""
    run.place.mkdir(parents=True)
    topics.create(run.servers, run.topic, events.PARTITIONS)
    replayed: Counter[str] = Counter()
    for number in range(count):
        if number == count // 2:
            run.drain()
            upkeep.forget(run)
            # Folded in the next life, or in the next one.
            replayed += upkeep.replay(run)
        events.arrive(files, run.place / "data", number)
        events.send(files, run.servers, run.topic, number)
        if killer is not None and number < killer.kills:
            killer.kill(run, number)
    run.drain()
    replayed += upkeep.replay(run)
    run.drain()
    return replayed


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


if __name__ == "__main__":
    main()
