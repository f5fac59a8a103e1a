"""Orders of a store with prices and customers: totals per tier, best sellers, and unpaid orders.

    $ python examples/orders.py data --rows 3000
    $ keyfold run examples/orders.py --drain
    $ keyfold rows store.tiers
    $ keyfold rows store.best_sellers --order-by "category, rank"
    $ keyfold rows store.unpaid --limit 5
    $ keyfold side list late store.unpaid
    $ keyfold status store

The first command generates orders, payments, customer profiles and a price list. Some orders are sent twice,
some are never paid, some are paid too late, some payments arrive hours late, and customers change their tier.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import keyfold as kf

app = kf.App("store", help="Orders of a store, with payments, prices and customers")

# One file per batch, so that historical data is read as it arrived, not as a single batch.
ONE_BY_ONE = {"format": "json", "maxFilesPerTrigger": 1}

sent = app.stream(
    "orders",
    kf.files("data/orders", **ONE_BY_ONE),
    schema="id string, customer string, sku string, quantity int, at timestamp",
    time="at",
    late="10 minutes",
    help="one row per order; a row may be sent twice",
)
orders = sent.distinct("id", within="1 day")

payments = app.stream(
    "payments",
    kf.files("data/payments", **ONE_BY_ONE),
    schema="id string, method string, at timestamp",
    time="at",
    late="10 minutes",
    help="one row per payment, with the id of the order",
)

profiles = app.stream(
    "profiles",
    kf.files("data/profiles", **ONE_BY_ONE),
    schema="customer string, tier string, at timestamp",
    time="at",
    late="10 minutes",
    help="one row whenever a customer is new or changes tier",
)

prices = kf.lookup(
    "prices",
    kf.files("data/prices.csv", format="csv", header=True),
    schema="sku string, product string, category string, price decimal(8, 2)",
    refresh="10 minutes",
    help="price per product",
)

customers = (
    profiles.by("customer").latest().table("customers", tier="tier", since="at", help="the current tier")
)

priced = orders.enrich(prices, on="sku", how="inner").select("*", amount="quantity * price")

# An order counts for the current tier of its customer: when the tier changes, the order moves with it.
priced.enrich(customers, on="customer", on_update=True, keep="30 days").by(
    tier="coalesce(tier, 'unknown')"
).table(
    "tiers",
    orders="count(*)",
    revenue="sum(amount)",
    help="totals per tier, by the current tier of each customer",
)

sales = priced.by("category", "product").table(
    "sales", sold="sum(quantity)", revenue="sum(amount)", help="totals per product"
)

sales.changes().by("category").top(2, by="revenue desc, product").table(
    "best_sellers",
    product="product",
    revenue="revenue",
    help="the two products with the highest revenue in each category",
)

# A payment never precedes its order. An unpaid order is emitted once the hour is over and no payment can
# arrive any more; an order that was sent twice is one row here even without distinct.
sent.join(payments, on="id", within=("0 seconds", "1 hour"), how="left_anti").by("id").latest().table(
    "unpaid", ttl="30 days", idle="1 hour", help="orders that were not paid within an hour"
)


# The data generator

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
HOURS = 8
FILES = 4
TIERS = ("basic", "silver", "gold")
PRODUCTS = {
    "tea": ("green", "black", "white", "mint"),
    "coffee": ("espresso", "filter", "decaf"),
    "ware": ("cup", "pot", "spoon"),
}


def generate(directory: Path, rows: int = 3000, seed: int = 7) -> None:
    """Writes one directory per stream, with files in order of arrival; the same seed gives the same rows."""
    chance = random.Random(seed)
    skus = _prices(directory, chance)
    made = list(_orders(rows, skus, chance))
    _write_all(directory / "orders", [*made, *_repeats(made, chance)])
    _write_all(directory / "payments", _payments(made, chance))
    _write_all(directory / "profiles", _profiles(chance))


def _prices(directory: Path, chance: random.Random) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    things = [(product, category) for category, products in PRODUCTS.items() for product in products]
    skus = [f"s{number}" for number in range(len(things))]
    with (directory / "prices.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["sku", "product", "category", "price"])
        for sku, thing in zip(skus, things, strict=True):
            table.writerow([sku, *thing, f"{chance.randint(100, 3000) / 100:.2f}"])
    # One product that is ordered has no price.
    return [*skus, "s99"]


def _orders(rows: int, skus: list[str], chance: random.Random) -> Iterator[tuple[float, dict[str, object]]]:
    """Each order with the second of its arrival."""
    for number in range(rows):
        second = chance.uniform(0, HOURS * 3600)
        row = {"id": f"o{number}", "customer": f"c{chance.randrange(60)}", "sku": chance.choice(skus)}
        yield second + chance.uniform(0, 60), {**row, "quantity": chance.randint(1, 5), "at": _text(second)}


def _repeats(
    made: list[tuple[float, dict[str, object]]], chance: random.Random
) -> Iterator[tuple[float, dict[str, object]]]:
    """One order in fifty is sent twice, within minutes."""
    for arrival, row in made:
        if chance.random() < 0.02:
            yield arrival + chance.uniform(1, 300), row


def _payments(
    made: list[tuple[float, dict[str, object]]], chance: random.Random
) -> Iterator[tuple[float, dict[str, object]]]:
    for _, order in made:
        at = datetime.fromisoformat(str(order["at"]))
        kind = chance.random()
        if kind < 0.05:
            continue  # never paid
        # One in twenty is paid after the hour.
        wait = chance.uniform(3700, 7200) if kind < 0.10 else chance.uniform(5, 3500)
        second = (at - START).total_seconds() + wait
        # One in a hundred arrives hours late.
        arrival = second + (3 * 3600 if kind > 0.99 else chance.uniform(0, 60))
        yield arrival, {"id": order["id"], "method": chance.choice(("card", "bank")), "at": _text(second)}


def _profiles(chance: random.Random) -> Iterator[tuple[float, dict[str, object]]]:
    """Two of the sixty customers have no profile; the others change their tier a few times."""
    for number in range(58):
        for change in range(chance.randint(1, 4)):
            second = 0.0 if change == 0 else chance.uniform(0, HOURS * 3600)
            row = {"customer": f"c{number}", "tier": chance.choice(TIERS), "at": _text(second)}
            yield second + chance.uniform(0, 60), row


def _text(second: float) -> str:
    at = (START + timedelta(seconds=second)).isoformat(timespec="milliseconds")
    return at.replace("+00:00", "Z")


def _write_all(directory: Path, arriving: Iterator[tuple[float, dict[str, object]]] | list) -> None:
    """Files that cover equal time spans, so that the n-th files of all streams arrive together."""
    directory.mkdir(parents=True, exist_ok=True)
    ordered = sorted(arriving, key=lambda each: each[0])
    span = (HOURS + 6) * 3600 / FILES
    for number in range(FILES):
        part = [json.dumps(row) for second, row in ordered if int(second // span) == number]
        _write(directory / f"{number:03d}.json", part, age=FILES - number)


def _write(file: Path, lines: list[str], age: int) -> None:
    aside = file.with_name(f".{file.name}")
    aside.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    # Spark reads files in order of age; a file must appear whole.
    os.utime(aside, (time.time() - age,) * 2)
    aside.rename(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes up orders, payments, customers and prices.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path("data"))
    parser.add_argument("--rows", type=int, default=3000)
    given = parser.parse_args()
    generate(given.directory, given.rows)
