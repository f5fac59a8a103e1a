"""Live totals per region of a shop's orders: the app of the README."""

import keyfold as kf

app = kf.App("shop", help="Orders of the shop")

orders = app.stream(
    "orders",
    kf.files("data/orders", format="json"),
    schema="id string, customer string, region string, amount double, at timestamp",
    time="at",
    late="10 minutes",
)

orders.where("amount > 0").by("region").table(
    "region_totals",
    orders="count(*)",
    revenue="sum(amount)",
    customers="count(distinct customer)",
    ttl="30 days",
)
