"""`python -m bench`: interleaved rounds of every contestant on the same data, medians and ratios.

One round is for warming up and isn't counted. Compare ratios within a run: absolute figures move with the
machine and its mood.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import (
    cluster,
    data,
    engines,
    idle,
    joins,
    kafka,
    knobs,
    latency,
    output,
    patterns,
    process,
    serve,
    state,
    text,
    windows,
)
from keyfold.engine.session import own_session
from keyfold.settings import load

ROWS, BATCH = 10_000_000, 2_000_000
Contestant = Callable[[Any, Path], engines.Result]

# keys; contestants (the first is what ratios are of); bars: a contestant, of whom, and the ratio to reach
Bars = dict[str, tuple[str, float]]
FOUR: dict[str, Contestant] = {
    "spark": engines.spark_builtin,
    "keyfold": engines.keyfold(),
    "keyfold, views": engines.keyfold(views=True),
    "keyfold, ttl": engines.keyfold(ttl="30 days"),
}
OWN: Bars = {"keyfold, views": ("keyfold", 0.7), "keyfold, ttl": ("keyfold", 0.8)}


def hot(spark: Any, _: Path) -> engines.Result:
    """keyfold where one key holds half of all rows."""
    return engines.keyfold()(spark, data.events(10_000, ROWS, BATCH, hot=True))


SUITES: dict[str, tuple[int, dict[str, Contestant], Bars]] = {
    "10k": (10_000, FOUR, {"keyfold": ("spark", 0.9), **OWN}),
    "1m": (1_000_000, FOUR, {"keyfold": ("spark", 1.0), **OWN, "keyfold, views": ("keyfold", 0.85)}),
    "hot": (
        10_000,
        {"even keys": engines.keyfold(), "one hot key": hot},
        {"one hot key": ("even keys", 0.9)},
    ),
    "tables": (10_000, {f"{n} tables": engines.keyfold(tables=n) for n in (1, 5, 20)}, {}),
}
PYTHON_MB = 500
OTHERS = (
    *("windows", "joins", "patterns", "process", "idle", "output", "knobs", "text", "kafka", "state"),
    "cluster",
)
# Suites with figures of their own: the title and the columns of their table.
FIGURES = {
    "idle": ("idle, eight tables", ("% of a core", "ratio")),
    "output": (
        "one large batch, with a view",
        ("seconds", "python peak MB", "bar", "java MB", "parts", "parts MB"),
    ),
    "state": ("a million keys", ("seconds", "bar")),
    "knobs": (
        "knobs; the last two: after a restart",
        ("batch ms", "events/s", "first batch ms", "loading ms"),
    ),
}


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["latency"]:
        # It needs the machine for itself, and a broker beside it: only if it is asked for.
        latency.main(given[1:])
        return
    if given[:1] == ["serve"]:
        # It starts no Spark, and needs the machine for itself too.
        serve.main(given[1:])
        return
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__)
    known = [*SUITES, *OTHERS]
    parser.add_argument("suites", nargs="*", default=known, choices=known, help=f"of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds, after one for warming up")
    parser.add_argument("--rows", type=int, default=ROWS, help="of suites text and kafka")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    chosen = parser.parse_args(arguments)
    # In processes of their own, before this one's JVM takes the memory.
    report: dict[str, Any] = {"output": output.measure()} if "output" in chosen.suites else {}
    if "cluster" in chosen.suites:
        report["cluster"] = cluster.measure(chosen.rounds)
    if set(report) < set(chosen.suites):
        report |= in_this_process(chosen.suites, chosen.rounds, chosen.rows)
    if chosen.json:
        print(json.dumps(report))
    else:
        show(report, chosen.suites)


def in_this_process(suites: list[str], rounds: int, rows: int) -> dict[str, Any]:
    """The suites that share a session, and the most memory that this process had."""
    spark = own_session(load(driver_memory="6g"))
    report: dict[str, Any] = {name: measure(spark, name, rounds) for name in suites if name in SUITES}
    if "windows" in suites:
        report["windows"] = windows.measure(spark, rounds)
    if "joins" in suites:
        report["joins"] = joins.measure(spark, rounds)
    if "patterns" in suites:
        report["patterns"] = patterns.measure(spark, rounds)
    if "process" in suites:
        report["process"] = process.measure(spark)
    if "text" in suites:
        report["text"] = text.measure(spark, rounds, rows)
    if "kafka" in suites:
        report["kafka"] = kafka.measure(spark, rounds, rows)
    if "state" in suites:
        report["state"] = state.measure(spark)
    if "idle" in suites:
        report["idle"] = idle.measure(spark)
    if "knobs" in suites:
        report["knobs"] = measure_knobs(spark)
    report["python peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    spark.stop()
    return report


def measure(spark: Any, name: str, rounds: int) -> dict[str, dict[str, Any]]:
    keys, contestants, bars = SUITES[name]
    place = data.events(keys, ROWS, BATCH)
    rates: dict[str, list[float]] = {c: [] for c in contestants}
    for number in range(rounds + 1):
        # Another one begins each round: whoever comes after the same neighbour pays for its garbage.
        first = number % len(contestants)
        for contestant, runs in [*contestants.items()][first:] + [*contestants.items()][:first]:
            found = runs(spark, place).rates
            print(f"{name}, round {number}, {contestant}: {_thousands(found)}", file=sys.stderr, flush=True)
            rates[contestant] += found if number else []
    return _compared(rates, bars)


def measure_knobs(spark: Any) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for size in (2_000, 20_000, 200_000):
        found[f"batches of {size:,}"] = knobs.batches(spark, size)
        print(f"knobs, batches of {size:,}: {found[f'batches of {size:,}']}", file=sys.stderr, flush=True)
    for every in (1, 10, 100):
        found[f"snapshot_every={every}"] = knobs.snapshots(every)
        print(
            f"knobs, snapshot_every={every}: {found[f'snapshot_every={every}']}", file=sys.stderr, flush=True
        )
    return found


def _compared(rates: dict[str, list[float]], bars: Bars) -> dict[str, dict[str, Any]]:
    medians = {c: statistics.median(r) for c, r in rates.items()}
    base = next(iter(medians.values()))
    found: dict[str, dict[str, Any]] = {}
    for contestant, median in medians.items():
        found[contestant] = {"events/s": round(median), "ratio": round(median / base, 2)}
        if contestant in bars:
            of, bar = bars[contestant]
            reached = round(median / medians[of], 2)
            found[contestant]["bar"] = (
                f"{reached:.2f} of {of}, {'reaches' if reached >= bar else 'MISSES'} {bar}"
            )
    return found


def show(report: dict[str, Any], suites: Iterable[str]) -> None:
    console = Console()
    for name in suites:
        if name in FIGURES:
            show_figures(console, name, report[name])
            continue
        table = Table("contestant", "events/s", "ratio", "bar", title=name)
        for contestant, found in report[name].items():
            rate, ratio = f"{found['events/s']:,}", f"{found['ratio']:.2f}"
            table.add_row(contestant, rate, ratio, found.get("bar", ""))
        console.print(table)
    peak = report.get("python peak MB")
    if peak is None:
        return
    verdict = "stays under" if peak < PYTHON_MB else "EXCEEDS"
    console.print(
        f"the driver's Python process {verdict} {PYTHON_MB} MB: {peak} MB at most; {os.cpu_count()} cores"
    )


def show_figures(console: Console, name: str, found: dict[str, dict[str, float]]) -> None:
    title, columns = FIGURES[name]
    table = Table("", *columns, title=title)
    for what, figures in found.items():
        table.add_row(what, *(str(figures.get(column, "")) for column in columns))
    console.print(table)


def _thousands(rates: Iterable[float]) -> str:
    return " ".join(f"{rate / 1000:,.0f}k" for rate in rates)


if __name__ == "__main__":
    main()
