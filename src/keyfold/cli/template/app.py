"""Live totals per region of a shop's orders.

Run it:            keyfold run app.py
All there is now:  keyfold run app.py --drain
Read it:           keyfold get orders_app.region_totals eu
Test it:           pytest test_app.py
"""

import keyfold as kf

# The name of the app and the names of its tables are the identity of its state on disk.
app = kf.App("orders_app", help="Orders of a shop")

orders = app.stream(
    "orders",
    # New files in this directory are read as they appear. Write them elsewhere and rename them into it.
    kf.files("data/orders", format="json"),
    schema="id string, customer string, region string, amount double, at timestamp",
    # Event time: rows count by when they happened. Ten minutes of disorder are waited for.
    time="at",
    late="10 minutes",
)

# Conditions and columns are Spark SQL.
paid = orders.where("amount > 0").select("*", cents="cast(round(amount * 100) as bigint)")

# One row per region. Any Spark aggregate works; a region without orders for 30 days is forgotten.
paid.by("region").table(
    "region_totals",
    orders="count(*)",
    revenue="sum(cents) / 100",
    customers="count(distinct customer)",
    newest="max(at)",
    ttl="30 days",
)

# A fold of your own: an average in which the newest orders count most.
paid.by("customer").table(
    "customers",
    orders="count(*)",
    trend=kf.fold(
        zero={"v": "cast(null as double)"},
        update={"v": "coalesce(0.8 * state.v + 0.2 * amount, amount)"},
        result="round(state.v, 2)",
    ),
)
