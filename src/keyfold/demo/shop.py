"""The demo's app: the orders and clicks of a shop."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

import keyfold as kf

LATE: Final = timedelta(minutes=10)
VISIT_TTL: Final = timedelta(hours=1)


def app(data: Path) -> kf.App:
    """The shop app, on the files that the generator writes to a directory."""
    shop = kf.App("shop", every="1 second", help="A shop's orders and clicks, generated while it runs")
    orders = shop.stream(
        "orders",
        kf.files(str(data / "orders"), format="json"),
        schema="id string, customer string, region string, product string, amount double, at timestamp",
        time="at",
        late=LATE,
        help="one row per order",
    )
    clicks = shop.stream(
        "clicks",
        kf.files(str(data / "clicks"), format="json"),
        schema="visit string, customer string, page string, at timestamp",
        time="at",
        late=LATE,
        help="one row per page view",
    )
    paid = orders.where("amount > 0")
    paid.by("region").table(
        "regions",
        orders="count(*)",
        revenue="sum(amount)",
        customers="count(distinct customer)",
        ttl="30 days",
        help="totals per region; a region without orders for 30 days expires",
    )
    paid.by("customer").table(
        "customers",
        orders="count(*)",
        spent="sum(amount)",
        best="max(amount)",
        favourite="max_by(product, amount)",
        help="totals per customer; a few of them buy most",
    )
    paid.by("product").table(
        "products",
        sold="count(*)",
        mean="avg(amount)",
        trend=kf.fold(
            zero={"v": "cast(null as double)"},
            update={"v": "coalesce(0.9 * state.v + 0.1 * amount, amount)"},
            result="round(state.v, 2)",
        ),
        help="sales per product, and a moving average as a user-defined fold",
    )
    clicks.by("visit").table(
        "visits",
        pages="count(*)",
        began="min(at)",
        ended="max(at)",
        ttl=VISIT_TTL,
        help="one row per visit; expires an hour after its last page",
    )
    return shop
