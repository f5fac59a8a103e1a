"""`python -m bench.trees OTHER CASE...`: this checkout beside another, in turns, each with its own `.venv`.

Prints events (or small batches) per second of both, and this one relative to the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.probe import CASES

HERE = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.trees", description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout in which `make setup` has run")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=1, help="processes of each checkout")
    chosen = parser.parse_args()
    if unknown := set(chosen.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    trees = {"other": chosen.other.resolve(), "this": HERE}
    _share_data(trees["other"])
    rates: dict[str, dict[str, list[float]]] = {who: {} for who in trees}
    for number in range(chosen.rounds):
        for who in trees if number % 2 else reversed(trees):
            for case, found in _rates(trees[who], chosen.cases).items():
                print(f"round {number}, {who}, {case}: {found}", file=sys.stderr, flush=True)
                rates[who].setdefault(case, []).extend(found)
    _show(rates)


def _share_data(other: Path) -> None:
    """Both read the same files."""
    place = other / "bench" / "data"
    if not place.exists():
        place.symlink_to(HERE / "bench" / "data")


def _rates(tree: Path, cases: list[str]) -> dict[str, list[float]]:
    command = [tree / ".venv/bin/python", HERE / "bench" / "probe.py", *cases]
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _show(rates: dict[str, dict[str, list[float]]]) -> None:
    table = Table("case", "other", "this", "ratio")
    for case, own in rates["this"].items():
        medians = [statistics.median(found) for found in (rates["other"][case], own)]
        table.add_row(case, *(f"{rate:,.1f}" for rate in medians), f"{medians[1] / medians[0]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
