"""Orders of a topic by region: the app that compose.yaml runs."""

import os

import keyfold as kf

app = kf.App("shop", help="Orders by region")
orders = app.stream(
    "orders",
    kf.kafka(os.environ.get("KAFKA", "127.0.0.1:9092"), topic="orders"),
    "id string, customer string, region string, product string, amount double, at timestamp",
    time="at",
    late="1 minute",
)
orders.by("region").table("totals", orders="count(*)", revenue="sum(amount)")
orders.by("region").tumbling("1 minute").table("per_minute", orders="count(*)", revenue="sum(amount)")
