"""`make bench-cli`: how long commands take to answer, from a warm environment, and how long they may."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

KEYFOLD = [sys.executable, "-m", "keyfold"]
# A command, and the seconds it may take.
QUICK = {
    "--help": 0.3,
    "describe app.py": 1.0,
    "get orders_app.region_totals eu": 0.5,
    "rows orders_app.region_totals": 0.5,
    "status": 0.5,
}
FIRST_ROW = 12.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-cli ARGS=...", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as place:
        _call(place, "init", ".")
        found = {"run, to the first row in the view": (_first_row(Path(place)), FIRST_ROW)}
        for words, bar in QUICK.items():
            taken = [_timed(place, *words.split()) for _ in range(chosen.rounds + 1)]
            found[words] = (statistics.median(taken[1:]), bar)
    if chosen.json:
        print(json.dumps({name: {"seconds": round(s, 3), "bar": bar} for name, (s, bar) in found.items()}))
        return
    table = Table("command", "seconds", "bar")
    for name, (seconds, bar) in found.items():
        table.add_row(name, f"{seconds:.2f}", f"{'reaches' if seconds <= bar else 'MISSES'} {bar:g}")
    Console().print(table)


def _call(place: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*KEYFOLD, *words], cwd=place, capture_output=True, check=True)


def _timed(place: str, *words: str) -> float:
    begun = time.monotonic()
    _call(place, *words)
    return time.monotonic() - begun


def _first_row(place: Path) -> float:
    """From the call of `keyfold run` to a row that another process can read; the kernel is there already."""
    from keyfold.errors import QueryError
    from keyfold.kernel.build import kernel_jar
    from keyfold.views.reader import TableReader
    from keyfold.views.stores import open_store

    kernel_jar()
    views = place / ".keyfold" / "orders_app" / "views.db"
    begun = time.monotonic()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*KEYFOLD, "run", "app.py"], cwd=place, **quiet) as run:  # type: ignore[call-overload]
        while True:
            try:
                if (
                    os.path.exists(views)
                    and TableReader(open_store(views, read_only=True), "region_totals").rows()
                ):
                    break
            except QueryError:
                pass
            if run.poll() is not None:
                raise RuntimeError("keyfold run ended")
            time.sleep(0.02)
        taken = time.monotonic() - begun
        run.terminate()
    return taken


if __name__ == "__main__":
    main()
