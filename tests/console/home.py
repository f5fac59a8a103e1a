"""A home as runs of several apps leave it, in which every page of the console has something to show."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import keyfold as kf
from keyfold.engine.internal_columns import OP
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.savepoint.manifest import SavedFile, SavedTable, Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.status.batch_times import BatchTimes
from keyfold.engine.status.size_history import SizeHistory
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.plan.describe.as_json import to_dict
from keyfold.read.batch_times import BatchTime
from keyfold.read.metrics import RunStatus, TableStatus
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import columns
from tests.late_rows import said
from tests.log_files import publish

REGIONS: Final = ("eu", "us", "asia", "africa")
PRODUCTS: Final = ("tea", "coffee", "honey", "bread", "cheese", "olives", "soap", "candles")
BATCHES: Final = 48
MINUTE: Final = timedelta(minutes=1)
REGION_TOTALS = ViewSchema(
    "region_totals",
    columns(region="string"),
    columns(orders="long", revenue="double", customers="long", best="string", updated="timestamp"),
    help="totals per region; a region without orders for 30 days expires",
)
CUSTOMERS = ViewSchema(
    "customers", columns(customer="string"), columns(orders="long", spent="double", favourite="string")
)
PER_MINUTE = ViewSchema(
    "per_minute",
    columns(page="string", window_start="timestamp", window_end="timestamp"),
    columns(views="long", visitors="long"),
    help="page views per minute",
)
VISITS = ViewSchema("visits", columns(visit="string"), columns(pages="long"))
LONG_VISITS = ViewSchema("long_visits", columns(pages="long"), columns(visits="long"))
PAIRS = ViewSchema("pairs", columns(a="string", b="long"), columns(v="string"))
PROBES = ViewSchema(
    "probes",
    columns(customer="string", match_id="string"),
    columns(started="timestamp", ended="timestamp", spent="double"),
    help="several small orders, then a large one",
)
SHOP: Final = (REGION_TOTALS, CUSTOMERS, PER_MINUTE, VISITS, LONG_VISITS, PAIRS, PROBES)


@dataclass
class Batch:
    """A batch of a table: the rows that it writes, and those that it does not fold."""

    rows: list[tuple[Any, ...]]
    side: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    deleted: list[tuple[Any, ...]] = field(default_factory=list)


def shop() -> kf.App:
    """The declaration of the app shop; it is not run."""
    app = kf.App("shop", help="Orders and visits of a shop")
    schema = "id string, customer string, region string, product string, amount double, at timestamp"
    orders = app.stream(
        "orders", kf.files("data/orders", format="json"), schema=schema, time="at", late="10m"
    )
    clicks = app.stream(
        "clicks",
        kf.files("data/clicks", format="json"),
        schema="visit string, page string, n long, at timestamp",
        time="at",
        late="1 minute",
    )
    totals = orders.by("region").table(
        REGION_TOTALS.table,
        orders="count(*)",
        revenue="sum(amount)",
        customers="count(distinct customer)",
        best="max_by(product, amount)",
        updated="max(at)",
        help=REGION_TOTALS.help,
    )
    totals.to(kf.files("out/totals", format="json"))
    orders.by("customer").table(
        CUSTOMERS.table, orders="count(*)", spent="sum(amount)", favourite="max_by(product, amount)"
    )
    probe, strike = kf.step("probe", "amount < 5", times=(2, None)), kf.step("strike", "amount > 200")
    refund = kf.no("refund", "amount = 0")
    spent = {"spent": "strike[0].amount"}
    orders.by("customer").pattern(PROBES.table, probe >> refund >> strike, within="10 minutes", returns=spent)
    views, visitors = "count(*)", "approx_count_distinct(visit)"
    clicks.by("page").tumbling("1 minute").table(PER_MINUTE.table, views=views, visitors=visitors)
    visits = clicks.by("visit").table(VISITS.table, pages="count(*)")
    visits.changes().by("pages").table(LONG_VISITS.table, visits="count(*)")
    clicks.by(a="page", b="n").table(PAIRS.table, v="max(visit)")
    return app


def region_totals(start: datetime) -> list[Batch]:
    """Orders of four regions, of unlike number; africa leaves for a while, and some orders don't parse."""
    chance, sums = random.Random(7), {region: [0, 0.0, 0] for region in REGIONS}
    found = []
    for number in range(BATCHES):
        rows, side = [], {}
        for weight, region in enumerate(reversed(REGIONS), 1):
            if region == "africa" and number % 5:
                continue
            orders = chance.randint(weight, weight * 6)
            total = sums[region]
            total[0] += orders
            total[1] = round(total[1] + orders * chance.uniform(18, 42), 2)
            total[2] += orders // 3
            at = start + number * MINUTE
            rows.append((region, *total, chance.choice(PRODUCTS), at))
        if number % 11 == 3:
            bad = f'amount "{chance.randint(1, 99)},50" is not a valid double'
            raw = f'{{"id": "o{number}", "region": "eu", "amount": "12,50"}}'
            rejected = {"kind": "rejected", "reason": f"does not parse: column {bad}", "raw": raw}
            place = {"stream": "orders", "file": f"data/orders/{number}.json", "line": number}
            side["rejected"] = [{**rejected, **place}]
        if number == 21:
            null = {"kind": "rejected", "reason": "key region is null", "raw": '{"id": "o7", "amount": 3}'}
            side["rejected"] = [{**null, "stream": "orders"}] * 3
        deleted = [("africa",)] if number == 23 else []
        found.append(Batch(rows, side, deleted))
    return found


def customers(start: datetime) -> list[Batch]:
    """Three hundred customers, of whom a few buy most."""
    del start
    chance = random.Random(3)
    rows: list[tuple[Any, ...]] = [
        (
            f"c{n}",
            (n % 17) + 1,
            round(90_000 / (n + 3) * chance.uniform(0.7, 1.2), 2),
            chance.choice(PRODUCTS),
        )
        for n in range(300)
    ]
    rows[7] = ("ä/b c", 2, None, '"quoted" <b>text</b>')
    rows[8] = ("..", 1, 4.5, None)
    return [Batch(rows[first::6]) for first in range(6)]


def per_minute(start: datetime) -> list[Batch]:
    """Page views of three pages over the minutes, and some that came too late."""
    chance, found = random.Random(5), []
    for number in range(BATCHES):
        begin, rows = start + number * MINUTE, []
        for weight, page in enumerate(("help", "basket", "home"), 1):
            views = chance.randint(20 * weight, 30 * weight)
            rows.append((page, begin, begin + MINUTE, views, views // 3))
        late = (
            [said(f'{{"page": "home", "n": {number}}}', begin - 3 * MINUTE, begin)] if number % 9 == 4 else []
        )
        found.append(Batch(rows, {"late": late}))
    return found


def probes(start: datetime) -> list[Batch]:
    """Matches of a pattern, of unlike length."""
    chance, rows = random.Random(19), []
    for number in range(18):
        begun = start + number * 2 * MINUTE
        ended = begun + timedelta(seconds=chance.uniform(40, 560))
        rows.append((f"c{number * 11 % 40}", f"m{number}", begun, ended, round(chance.uniform(210, 900), 2)))
    return [Batch(rows)]


def few(*rows: tuple[Any, ...]) -> list[Batch]:
    return [Batch(list(rows), {"duplicate": [{"kind": "duplicate", "step": "distinct id", "raw": "{}"}]})]


def write(home: AppHome, schema: ViewSchema, batches: list[Batch], start: datetime) -> None:
    """The view and the log of a table."""
    store, log = home.views.open(read_only=False), TableLog(home.table(schema.table).log)
    store.create(schema)
    fields = pa.schema([(OP, pa.string()), *((one.name, one.type) for one in schema.arrow if one.name != OP)])
    names = [one.name for one in fields if one.name != OP]
    for number, batch in enumerate(batches):
        at = start + number * MINUTE
        width = len(names)
        gone = [(*key, *(None,) * (width - len(key))) for key in batch.deleted]
        rows = [("upsert", *row) for row in batch.rows] + [("delete", *row) for row in gone]
        with store.batch(schema.table, number, at, at) as writer:
            arrays = [pa.array([row[i] for row in rows], one.type) for i, one in enumerate(schema.arrow)]
            writer.apply(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))
        changes = [dict(zip((OP, *names), row, strict=True)) for row in rows]
        found = {"change": changes, **batch.side}
        publish(log, number, found, schema=fields, at=at, offsets=[number])  # type: ignore[arg-type]
    store.close()


def write_orders(home: AppHome, batches: list[Batch], start: datetime) -> None:
    """The log of the stream orders, whose rows give the totals of regions, each batch one of the table."""
    reader, log = home.table(REGION_TOTALS.table), TableLog(home.stream_home("orders").log)
    reader.storage.put("inputs/0-orders/use.json", json.dumps({"layout": 1, "positions": [0]}).encode())
    texts = [(name, pa.string()) for name in ("id", "customer", "region", "product")]
    schema = pa.schema([*texts, ("amount", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
    before: dict[str, tuple[int, float]] = {}
    for number, batch in enumerate(batches):
        at, rows = start + number * MINUTE, []
        for region, orders, revenue, _, product, _ in batch.rows:
            had, sum_ = before.get(region, (0, 0.0))
            before[region] = (orders, revenue)
            amount = round((revenue - sum_) / (orders - had), 2)
            rows += [
                {
                    "id": f"{region}-{had + n}",
                    "customer": f"c{7 * n % 300}",
                    "region": region,
                    "product": product,
                    "amount": amount,
                    "at": at - timedelta(seconds=n),
                }
                for n in range(orders - had)
            ]
        publish(log, number, {"change": rows}, schema=schema, at=at)


def status(at: datetime, tables: Mapping[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """What a run publishes."""
    started = at - timedelta(hours=5)
    head = {"app": "shop", "home": "", "pid": 1, "started": started.isoformat(), "at": at.isoformat()}
    return {
        **head,
        "streams": {},
        "tables": tables,
        "lookups": {},
        "batch_limits": {},
        "failures": [],
        **more,
    }


def table_status(batches: int, at: datetime, **more: Any) -> dict[str, Any]:
    """What a run publishes of a table that is up to date."""
    newest = (at - timedelta(seconds=1)).isoformat()
    counts = {"late": 0, "rejected": 0, "duplicates": 0, "dropped_partials": 0}
    speed = {"rows": 90_000, "rows_per_second": 312.4, "batch_ms": 840, "state_bytes": 2_140_000}
    known = {"running": True, "batch": batches - 1, "at": newest, "keys": 4, "keys_at": newest}
    return {**known, **speed, "watermark": (at - MINUTE).isoformat(), "lag_seconds": 60.0, **counts, **more}


def trends(place: AppHome, at: datetime, minutes: int = 75) -> None:
    """What runs have recorded of the tables in the last hour and more."""
    chance, history = random.Random(13), SizeHistory(place)
    speeds = {"region_totals": 310, "customers": 300, "per_minute": 900, "visits": 210, "pairs": 600}
    rows, late, rejected = dict.fromkeys(speeds, 0), 0, 0
    for minute in range(minutes):
        late, rejected = late + (minute % 9 == 4), rejected + (minute % 11 == 3)
        tables = {}
        for number, (name, speed) in enumerate(speeds.items(), 1):
            rows[name] += round(60 * speed * chance.uniform(0.75, 1.15))
            tables[name] = TableStatus(
                batch=minute,
                rows=rows[name],
                batch_ms=round(chance.uniform(500, 900)),
                keys=300 + 40 * minute if name == "customers" else 100 * number,
                state_bytes=2_000_000 * number + 21_000 * minute,
                late=late if name == "per_minute" else 0,
                rejected=rejected if name == "region_totals" else 0,
                lag_seconds=chance.uniform(40, 80),
            )
        history.add(RunStatus(at=at - (minutes - minute) * MINUTE, tables=tables))


def batch_times(place: AppHome, start: datetime) -> None:
    """Where the time of batches went: those of region_totals take longer and longer, two wait for a sink."""
    chance, found = random.Random(17), {}
    for name, batches in (("region_totals", BATCHES), ("visits", 2)):
        found[name] = [
            BatchTime(
                batch=number,
                at=start + number * MINUTE,
                rows=18_000,
                plan=round(chance.uniform(60, 90)),
                fold=round(chance.uniform(330, 400) * (1 + number / 60)),
                wait=420 if number in (30, 31) else 0,
                commit=round(chance.uniform(70, 110)),
                view=round(chance.uniform(90, 140)),
            )
            for number in range(batches)
        ]
    BatchTimes(place).add(found)


def fill(home: Path, now: datetime | None = None) -> AppHome:
    """The apps shop, which `running` makes run, bank, which has stopped, and fresh, which has no rows yet."""
    at = now or datetime.now(UTC)
    start = at.replace(second=0, microsecond=0) - BATCHES * MINUTE
    place = AppHome(home / "shop")
    place.path.mkdir(parents=True)
    made = {
        REGION_TOTALS: region_totals(start),
        CUSTOMERS: customers(start),
        PER_MINUTE: per_minute(start),
        VISITS: few(("v1", 3), ("v2", 9)),
        LONG_VISITS: few((3, 1), (9, 1)),
        PROBES: probes(start),
        PAIRS: few(("home", 1, "v1"), ("a/b", -5, "ä%"), ("", 7, None)),
    }
    for schema, batches in made.items():
        write(place, schema, batches, start)
    write_orders(place, made[REGION_TOTALS], start)
    read = {schema.table: StoredTable(streams=("orders",)) for schema in SHOP}
    place.write_plan(StoredApp(read, declared=to_dict(shop().spec()), app="shop"))
    savepoints(place, at)
    trends(place, at)
    batch_times(place, start)
    stopped = AppHome(home / "bank")
    stopped.path.mkdir()
    accounts = ViewSchema("accounts", columns(iban="string"), columns(balance="decimal(20,2)"))
    write(stopped, accounts, [Batch([("DE1", 12_345), ("FR2", -700)])], start)
    streams = {"accounts": StoredTable(streams=("payments",))}
    stopped.write_plan(StoredApp(streams, declared={"tables": [{"name": "accounts"}]}, app="bank"))
    stopped.write_status(status(at, {"accounts": table_status(1, at, running=False, keys=2)}))
    fresh = AppHome(home / "fresh")
    fresh.path.mkdir()
    store = fresh.views.open(read_only=False)
    store.create(ViewSchema("empty", columns(k="string"), columns(n="long")))
    store.close()
    fresh.write_plan(
        StoredApp({"empty": StoredTable()}, declared={"tables": [{"name": "empty"}]}, app="fresh")
    )
    return place


def savepoints(place: AppHome, at: datetime) -> None:
    """Two savepoints of the app, of which one was read back, and files of the state of a table."""
    saved = SavedFile("tables/region_totals/log/0.json", 412_000_000, "ab")
    for name, days, why in (("before-upgrade", 1, "Spark 4.3"), ("nightly", 0, None)):
        state = (FamilyDigest(0, "default", 4, "ab"),) if why else None
        tables = {"region_totals": SavedTable(1, None, (), 4, state)}
        when = at - timedelta(days=days, hours=2)
        made = Savepoint(
            name, "shop", when, "ada", why, why is None, "4.3.0", 1, tables, (saved,), None, True
        )
        Savepoints(place).add(made)
    checkpoint = place.table(REGION_TOTALS.table).storage.below("checkpoint")
    for partition, size in enumerate((210_000, 198_000, 420_000, 189_000)):
        checkpoint.put(f"state/0/{partition}/47_a.zip", b"0" * size)


@contextmanager
def running(place: AppHome, now: datetime | None = None) -> Iterator[None]:
    """The app shop as if it ran: this process holds its home, and a status that stays fresh is published."""
    lease = Lease(place).take()
    try:
        at = now or datetime.now(UTC)
        clicks = {"rows_per_second": 905.0, "keys": 11_400, "rows": 1_204_000}
        tables = {
            "region_totals": table_status(BATCHES, at, rejected=7),
            "customers": table_status(6, at, keys=300, rows_per_second=311.0, state_bytes=41_200_000),
            "per_minute": table_status(BATCHES, at, late=5, **clicks, state_bytes=38_000_000),
            "visits": table_status(1, at, running=False, rows_per_second=0, keys=2),
            "long_visits": table_status(1, at, rows_per_second=0, keys=2, state_bytes=90_000),
            "probes": table_status(1, at, keys=18, rows_per_second=12.0, state_bytes=640_000),
            "pairs": table_status(
                1, at, keys=3, messages_left=18_400, rows_per_second=640.0, batch_ms=3100, state_bytes=1_100
            ),
        }
        text = "DIVIDE_BY_ZERO: Division by zero in pages / n\n  shop.py:31"
        failed = {"at": at.isoformat(), "table": "visits", "batch": 2, "kind": "expression", "text": text}
        # A status of a time to come is as fresh as one can be.
        ahead = at + timedelta(days=1)
        started = (at - timedelta(hours=5)).isoformat()
        place.write_status(status(ahead, tables, failures=[failed], started=started))
        yield
    finally:
        lease.release()


def commit(place: AppHome, region: str, orders: int, revenue: float) -> None:
    """Publishes another batch of region_totals in its log, with one change."""
    log = TableLog(place.table(REGION_TOTALS.table).log)
    newest = list(log.after(-1))
    (part,) = newest[0].of_kind("change")
    row = {OP: "upsert", "region": region, "orders": orders, "revenue": revenue}
    last = newest[-1].batch
    publish(log, last + 1, {"change": [row]}, schema=log.schema(part), previous=last)
