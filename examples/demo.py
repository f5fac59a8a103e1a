"""`make demo`: the README's app on generated orders, its totals, and a recount of the files.

Some rows are bad on purpose: a line cut short, a missing region, an amount that is no number.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

REGIONS = ("eu", "us", "asia", "africa")
FILES, ORDERS_PER_FILE = 20, 5_000


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="keyfold-demo-") as place:
        os.chdir(place)
        generate(Path("data/orders"))
        console.print(f"{FILES * ORDERS_PER_FILE:,} orders in {FILES} files; starting Spark ...")
        sys.path.insert(0, str(Path(__file__).parent))
        from shop import app

        with app.start() as handle:
            handle.drain()
            live = handle.table("region_totals").rows(order_by="region")
            rejected = handle.rejected("orders")
        recounted = recount(Path("data/orders"))
        show(console, live, rejected)
        same = {row["region"]: row["orders"] for row in live} == {r: n for r, (n, _, _) in recounted.items()}
        same &= all(abs(row["revenue"] - recounted[row["region"]][1]) < 1e-6 * row["revenue"] for row in live)
        same &= all(row["customers"] == len(recounted[row["region"]][2]) for row in live)
        console.print(f"a recount of the files {'gives the same totals' if same else 'DIFFERS'}")
    sys.exit(0 if same else 1)


def generate(place: Path) -> None:
    """Files of orders with a few bad lines, the same each time."""
    chance = random.Random(7)
    place.mkdir(parents=True)
    for number in range(FILES):
        lines = [order(chance, number * ORDERS_PER_FILE + i) for i in range(ORDERS_PER_FILE)]
        (place / f"{number:03d}.json").write_text("\n".join(lines) + "\n")


def order(chance: random.Random, number: int) -> str:
    row = {
        "id": str(number),
        "customer": f"c{int(chance.paretovariate(1.2)) % 5000}",
        "region": chance.choices(REGIONS, weights=(5, 3, 2, 1))[0],
        "amount": round(chance.lognormvariate(3, 1), 2),
        "at": f"2026-01-{number % 28 + 1:02d}T{number % 24:02d}:00:00Z",
    }
    kind = chance.random()
    if kind < 0.0002:
        return json.dumps(row)[:-20]
    if kind < 0.0004:
        return json.dumps({**row, "region": None})
    if kind < 0.0006:
        return json.dumps({**row, "amount": "a lot"})
    return json.dumps(row)


def recount(place: Path) -> dict[str, tuple[int, float, set[str]]]:
    """The same totals by plain Python."""
    totals: dict[str, tuple[int, float, set[str]]] = defaultdict(lambda: (0, 0.0, set()))
    for file in sorted(place.glob("*.json")):
        for line in file.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if row["region"] is None or not isinstance(row["amount"], float) or row["amount"] <= 0:
                continue
            count, revenue, customers = totals[row["region"]]
            totals[row["region"]] = (count + 1, revenue + row["amount"], customers | {row["customer"]})
    return dict(totals)


def show(console: Console, live: list[dict], rejected: list[dict]) -> None:
    table = Table("region", "orders", "revenue", "customers", title="region_totals")
    for row in live:
        table.add_row(row["region"], f"{row['orders']:,}", f"{row['revenue']:,.2f}", f"{row['customers']:,}")
    console.print(table)
    reasons: dict[str, int] = defaultdict(int)
    for row in rejected:
        reasons[row["reason"]] += 1
    aside = Table("reason", "rows", title=f"{len(rejected)} rejected rows, kept with their text")
    for reason, count in sorted(reasons.items()):
        aside.add_row(reason, str(count))
    console.print(aside)


if __name__ == "__main__":
    main()
