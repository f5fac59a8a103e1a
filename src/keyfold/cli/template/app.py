"""Live totals per region of a shop's orders.

Run it:            keyfold run app.py
Process and stop:  keyfold run app.py --drain
Read it:           keyfold get orders_app.region_totals eu
Test it:           pytest test_app.py
"""

import keyfold as kf

# The names of the app and of its tables identify their state on disk.
app = kf.App("orders_app", help="Orders of a shop")

orders = app.stream(
    "orders",
    # New files in this directory are read as they appear. Write files elsewhere and rename them into it.
    kf.files("data/orders", format="json"),
    schema="id string, customer string, region string, amount double, at timestamp",
    # Event time, and how late a row may be: the watermark is 10 minutes behind the newest row.
    time="at",
    late="10 minutes",
)

# Conditions and columns are Spark SQL.
paid = orders.where("amount > 0").select("*", cents="cast(round(amount * 100) as bigint)")

# One row per region. Any Spark aggregate works; a region without orders for 30 days expires.
paid.by("region").table(
    "region_totals",
    orders="count(*)",
    revenue="sum(cents) / 100",
    customers="count(distinct customer)",
    newest="max(at)",
    ttl="30 days",
)

# A user-defined fold: a moving average in which the latest orders weigh most.
paid.by("customer").table(
    "customers",
    orders="count(*)",
    trend=kf.fold(
        zero={"v": "cast(null as double)"},
        update={"v": "coalesce(0.8 * state.v + 0.2 * amount, amount)"},
        result="round(state.v, 2)",
    ),
)
