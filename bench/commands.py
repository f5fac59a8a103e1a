"""`python -m bench.commands [OTHER]`: what commands cost on a small home, also in another checkout, in turns.

The home has seven tables of as many kinds and 45 keys; each command gets a copy of it. Prints the processor
seconds of all processes of a command, seconds by the clock, and both relative to those of the other checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

HERE: Final = Path(__file__).parents[1]
KEYS: Final = 45
APP: Final = """
import keyfold as kf

app = kf.App("small")
orders = app.stream(
    "orders", kf.files("orders", format="json", maxFilesPerTrigger=1),
    schema="id long, customer string, amount int, at timestamp", time="at", late="10 minutes",
)
payments = app.stream(
    "payments", kf.files("payments", format="json"), schema="id long, paid int, at timestamp",
    time="at", late="10 minutes",
)
customers = orders.by("customer")
customers.table("totals", n="count(*)", amount="sum(amount)")
customers.tumbling("15 minutes").table("per_quarter", n="count(*)", amount="sum(amount)")
customers.top(3, by="amount desc, id").table("largest", id="id", amount="amount")
customers.pattern(
    "then_small", kf.step("big", "amount > 800") >> kf.step("small", "amount < 100"), within="20 minutes"
)
orders.join(payments, on="id", within="1 hour").by("customer").table("paid", n="count(*)", paid="sum(paid)")
spent = customers.table("spent", amount="sum(amount)", n="count(*)")
spent.changes().by(range="cast(amount / 5000 as int)").table("ranges", customers="count(*)")
"""
# One table with a new column: its state is rewritten.
CHANGED: Final = APP.replace('"totals", ', '"totals", high="max(amount)", ')
COMMANDS: Final = {
    "check": "check app.py",
    "check, changed app": "check changed.py",
    "plan": "plan app.py",
    "plan, changed app": "plan changed.py",
    "state read": "state read small.totals --limit 50",
    "state diff": "state diff 0 now small.totals",
    "verify": "verify app.py",
    "migrate": "migrate changed.py",
    "rescale": "rescale small.totals 3",
    "forget": "forget small.totals c7 --yes",
}
# States that differ, and an app that does not fit, are answers.
_ANSWERS: Final = (0, 1, 2)


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    processor: float
    clock: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="another checkout, which is run by this Python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), help=f"of {', '.join(COMMANDS)}")
    chosen = parser.parse_args()
    trees = [HERE, *([chosen.other.resolve()] if chosen.other else [])]
    _show(costs(trees, chosen.only, chosen.rounds), trees)


def costs(trees: list[Path], names: list[str], rounds: int) -> dict[str, list[Cost]]:
    """The median of each command's rounds, by checkout."""
    for tree in trees:
        writer = [sys.executable, "-m", "keyfold.engine.jvm.archive_writer"]
        subprocess.run(writer, env=_environment(tree), check=True)
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as directory:
        place, saved = Path(directory) / "small", Path(directory) / "saved"
        _make(place)
        place.rename(saved)
        found: dict[str, list[list[Cost]]] = {name: [[] for _ in trees] for name in names}
        for _ in range(rounds):
            for name, taken in found.items():
                for tree, one in zip(trees, taken, strict=True):
                    # In the same place each time: a checkpoint has absolute paths.
                    shutil.copytree(saved, place)
                    one.append(_cost(tree, place, COMMANDS[name]))
                    shutil.rmtree(place)
        return {name: [_median(one) for one in taken] for name, taken in found.items()}


def _make(place: Path) -> None:
    """A directory with the app, and a home in which it has run two batches."""
    for stream in ("orders", "payments"):
        (place / stream).mkdir(parents=True)
    (place / "app.py").write_text(APP)
    (place / "changed.py").write_text(CHANGED)
    numbers = range(KEYS * 6)
    for half in (0, 1):
        lines = [_line(_order(number)) for number in numbers if number % 2 == half]
        (place / "orders" / f"{half}.json").write_text("".join(lines))
    paid = [_line({"id": n, "paid": n, "at": _at(n)}) for n in numbers if n % 3 == 0]
    (place / "payments" / "0.json").write_text("".join(paid))
    _cost(HERE, place, "run app.py --drain")


def _order(number: int) -> dict[str, object]:
    return {"id": number, "customer": f"c{number % KEYS}", "amount": number * 37 % 1000, "at": _at(number)}


def _at(number: int) -> str:
    return f"2026-01-01T00:{number % 60:02}:00Z"


def _line(row: dict[str, object]) -> str:
    return json.dumps(row) + "\n"


def _cost(tree: Path, place: Path, words: str) -> Cost:
    """What a command takes with the code of a checkout."""
    used, begun = _processor(), time.monotonic()
    command = [sys.executable, "-m", "keyfold", *words.split()]
    done = subprocess.run(command, cwd=place, env=_environment(tree), capture_output=True, text=True)
    cost = Cost(_processor() - used, time.monotonic() - begun)
    if done.returncode not in _ANSWERS or "Traceback" in done.stderr:
        raise RuntimeError(f"{words}: {done.stderr}")
    print(f"{tree.name}, {words}: {cost.processor:.1f}, {cost.clock:.1f}", file=sys.stderr, flush=True)
    return cost


def _environment(tree: Path) -> dict[str, str]:
    """The same Python, Java and libraries with the code of a checkout."""
    return {**os.environ, "PYTHONPATH": str(tree / "src")}


def _processor() -> float:
    """The processor seconds of all processes that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(taken: list[Cost]) -> Cost:
    return Cost(
        statistics.median(one.processor for one in taken), statistics.median(one.clock for one in taken)
    )


def _show(found: dict[str, list[Cost]], trees: list[Path]) -> None:
    table = Table("command", *(f"{tree.name}: processor, clock" for tree in trees), "ratios")
    for name, taken in found.items():
        cells = [f"{one.processor:.1f}, {one.clock:.1f}" for one in taken]
        this, *others = taken
        ratios = [f"{this.processor / one.processor:.2f}, {this.clock / one.clock:.2f}" for one in others]
        table.add_row(name, *cells, *ratios)
    Console().print(table)


if __name__ == "__main__":
    main()
