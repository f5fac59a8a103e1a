"""An app with every kind of table.

Its tables must not depend on where one batch ends and the next begins, since kills and arriving files move
these borders: streams that are joined have no late rows, and what is folded is exact (whole numbers).
"""

from __future__ import annotations

import os

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import keyfold as kf

# One file at a time and in order, so that a late row is late in every run.
FILES = {"format": "json", "maxFilesPerTrigger": 1}
LATE = "10 minutes"

app = kf.App("chaos", help="Every kind of table at once")

clicks = app.stream(
    "clicks",
    kf.files("data/clicks", **FILES),
    schema="id long, user string, page string, ms int, at timestamp",
    time="at",
    late=LATE,
    help="with late rows, repeats, null keys and lines that do not parse",
)
orders = app.stream(
    "orders",
    kf.files("data/orders", **FILES),
    schema="id long, customer string, sku string, amount int, at timestamp",
    time="at",
    late=LATE,
)
payments = app.stream(
    "payments",
    kf.files("data/payments", **FILES),
    schema="id long, paid int, at timestamp",
    time="at",
    late=LATE,
)
profiles = app.stream(
    "profiles",
    kf.files("data/profiles", **FILES),
    schema="customer string, tier string, at timestamp",
    time="at",
    late=LATE,
)
visits = app.stream(
    "visits",
    kf.kafka(
        os.environ.get("CHAOS_SERVERS", "127.0.0.1:9092"),
        topic=os.environ.get("CHAOS_TOPIC", "visits"),
        metadata=["partition"],
        # As chaos/events.py knows, so that a late message is late in every run.
        options={"maxOffsetsPerTrigger": 300},
    ),
    schema="id long, user string, ms int, at timestamp",
    time="at",
    # Longer than a file's half hour: a batch may end anywhere within it, and no row be late for that.
    late="1 hour",
    help="messages of Kafka, some of which do not parse, and some of which are late",
)
prices = kf.lookup(
    "prices", kf.rows([{"sku": f"s{n}", "price": n} for n in range(5)]), schema="sku string, price int"
)

# Running aggregates and folds
users = clicks.by("user")
users.table(
    "totals", n="count(*)", ms="sum(ms)", low="min(ms)", high="max(ms)", first="min(at)", last="max(at)"
)
users.table("distinct_pages", pages="count(distinct page)", slowest="max_by(page, struct(ms, id))")
users.table("forgotten", ttl="2 hours", n="count(*)", since="min(at)")
users.table(
    "streaks",
    best=kf.fold(
        zero={"run": "0", "best": "0"},
        update={
            "run": "if(ms > 500, state.run + 1, 0)",
            "best": "greatest(state.best, if(ms > 500, state.run + 1, 0))",
        },
        result="state.best",
    ),
)
users.table(
    "thrown", checked="sum(cast(1000 / (id % 97) as int))", help="rejects a row in 97: division by zero"
)

# Windows
users.tumbling("15 minutes").table("tumbling", n="count(*)", ms="sum(ms)")
users.tumbling("15 minutes").table("tumbling_final", emit="final", n="count(*)")
users.tumbling("15 minutes").table(
    "tumbling_kept", keep="6 hours", n="count(*)", help="into which late rows are replayed"
)
users.sliding("1 hour", every="15 minutes").table("sliding", n="count(*)", high="max(ms)")
users.session("5 minutes").table("sessions", n="count(*)", ms="sum(ms)")
users.rolling("30 minutes").table("rolling", n="count(*)", ms="sum(ms)")
users.last(5).table("last_five", ms="sum(ms)")

# Whole rows, repeats, logic in Python
users.top(3, by="ms desc, id").table("slowest", id="id", ms="ms")
users.latest().table("newest", page="page", id="id")
clicks.distinct("id", within="1 hour").by("page").table("unique_clicks", n="count(*)", ms="sum(ms)")


class Highest(StatefulProcessor):
    """The highest ms of a user."""

    def init(self, handle):
        self.highest = handle.getValueState("highest", "highest long")

    def handleInputRows(self, key, rows, timerValues):
        held = self.highest.get()
        highest = max([row.ms for row in rows] + ([held[0]] if held else []))
        self.highest.update((highest,))
        yield Row(user=key[0], highest=highest)

    def close(self):
        pass


users.process("processed", Highest, output="user string, highest long")

# Messages of Kafka
visitors = visits.by("user")
visitors.table("visitors", n="count(*)", ms="sum(ms)", places="count(distinct kafka_partition)")
visitors.tumbling("15 minutes").table("visited", emit="final", n="count(*)", ms="sum(ms)")
visitors.tumbling("15 minutes").table(
    "visited_kept", keep="6 hours", n="count(*)", help="into which late messages are replayed"
)

# Two streams, a stream and a table, a stream and a lookup
paid = orders.join(payments, on="id", within="1 hour")
paid.by("customer").table("paid", n="count(*)", amount="sum(amount)", paid="sum(paid)")
orders.join(payments, on="id", within="1 hour", how="left_anti").by("id").latest().table(
    "unpaid", amount="amount"
)
tiers = profiles.by("customer").latest().table("tiers", tier="tier")
orders.enrich(tiers, on="customer", on_update=True, keep="30 days").by(tier="coalesce(tier, 'none')").table(
    "by_tier", n="count(*)", amount="sum(amount)"
)
orders.enrich(tiers, on="customer", as_of="event", wait="0 seconds").by(tier="coalesce(tier, 'none')").table(
    "by_tier_then", n="count(*)", amount="sum(amount)"
)
orders.enrich(prices, on="sku").by("sku").table("revenue", revenue="sum(amount * coalesce(price, 0))")

# Tables of tables
spent = orders.by("customer").table("spent", amount="sum(amount)", n="count(*)")
spent.changes().by(range="cast(amount / 500 as int)").table(
    "ranges", customers="count(*)", most="max(amount)"
)
spent.changes().by(all="1").top(5, by="amount desc, customer").table(
    "best", customer="customer", amount="amount"
)
spent.join_table(tiers, name="spent_tiers", on="customer", how="full")

# Patterns
slow = kf.step("slow", "ms > 900", times=2)
quick = kf.step("quick", "ms < 100")
users.pattern(
    "then_quick",
    slow >> quick,
    within="20 minutes",
    returns={"ids": "array_join(transform(slow, x -> x.id), ' ')"},
)
users.pattern(
    "very_next", kf.step("one", "ms > 800").then(kf.step("two", "ms > 800")), within="20 minutes", skip="none"
)
