"""`python -m bench serve`: reads over HTTP at a million keys, loopback, one server process.

It needs the machine for itself, since the server and its clients share the cores. No app is running.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import uvloop
from rich.console import Console
from rich.table import Table

from keyfold.client import connect
from keyfold.engine.internal_columns import OP
from keyfold.engine.log.manifest import Manifest, part_of
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.types.parse import parse

KEYS, SECONDS, CLIENTS = 1_000_000, 10.0, 16
SCANNED, CHANGED = 100_000, 200_000
# What a second must have at least, and the milliseconds that one point read in a hundred may take.
BARS = {"point reads": 8_000, "batch-get of 100": 300, "NDJSON rows": 150_000, "changes": 20_000}
SLOWEST_MS = 5.0
SCHEMA = ViewSchema(
    "totals",
    (Column("customer", parse("string")),),
    (Column("orders", parse("long")), Column("revenue", parse("double"))),
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench serve", description=__doc__)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement of reads")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-serve-") as place:
        fill(Path(place), chosen.keys)
        with server(Path(place)) as (host, port):
            found = measure(host, port, chosen.keys, chosen.seconds)
    print(json.dumps(found)) if chosen.json else show(found)


def measure(host: str, port: int, keys: int, seconds: float) -> dict[str, dict[str, float]]:
    def point() -> bytes:
        return request(host, port, f"/api/apps/bench/tables/totals/keys/{key(random.randrange(keys))}")

    def several() -> bytes:
        body = json.dumps({"keys": [key(random.randrange(keys)) for _ in range(100)]}).encode()
        return request(host, port, "/api/apps/bench/tables/totals/batch-get", body)

    with connect(f"{host}:{port}") as remote:
        remote.table("totals").get(key(0))
        return {
            "point reads": loaded(host, port, point, seconds),
            "batch-get of 100": loaded(host, port, several, seconds),
            "NDJSON rows": timed(
                lambda: sum(1 for _ in remote.table("totals").scan(limit=SCANNED)), min(SCANNED, keys)
            ),
            "changes": timed(
                lambda: len(next(remote.changes("totals", position="bench.totals@1")).changes), CHANGED
            ),
        }


def loaded(host: str, port: int, make: Callable[[], bytes], seconds: float) -> dict[str, float]:
    """Requests per second of some clients at once, each on its own connection, and how long they took."""
    taken: list[float] = []
    uvloop.run(clients(host, port, make, time.perf_counter() + seconds, taken))
    taken.sort()
    return {
        "per second": len(taken) / seconds,
        "median ms": 1000 * statistics.median(taken),
        "p99 ms": 1000 * taken[int(len(taken) * 0.99)],
    }


async def clients(host: str, port: int, make: Callable[[], bytes], until: float, taken: list[float]) -> None:
    await asyncio.gather(*(client(host, port, make, until, taken) for _ in range(CLIENTS)))


async def client(host: str, port: int, make: Callable[[], bytes], until: float, taken: list[float]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    while (start := time.perf_counter()) < until:
        writer.write(make())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0])
        await reader.readexactly(length)
        taken.append(time.perf_counter() - start)
    writer.close()


def timed(run: Callable[[], int], expected: int) -> dict[str, float]:
    start = time.perf_counter()
    assert run() == expected
    return {"per second": expected / (time.perf_counter() - start)}


def request(host: str, port: int, path: str, body: bytes | None = None) -> bytes:
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n"
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    return f"{head}{length}\r\n".encode() + (body or b"")


def key(number: int) -> str:
    return f"customer-{number:09d}"


def fill(home: Path, keys: int) -> None:
    """A stopped app with one table: a view of all keys, and a log whose second batch has changes."""
    bench = AppHome(home / "bench")
    bench.path.mkdir(parents=True)
    with bench.views.open(read_only=False) as store:
        store.create(SCHEMA)
        with store.batch("totals", 1, datetime.now(UTC)) as writer:
            for first in range(0, keys, 100_000):
                writer.apply(rows(range(first, min(keys, first + 100_000)), SCHEMA.arrow))
    bench.write_plan(StoredApp({"totals": StoredTable(streams=())}, app="bench"))
    log = TableLog(bench.table("totals").log)
    fields = [(OP, pa.string()), *((c.name, c.type.arrow) for c in (*SCHEMA.keys, *SCHEMA.columns))]
    for batch, count in ((0, 0), (1, CHANGED)):
        out = pa.BufferOutputStream()
        pa.parquet.write_table(pa.Table.from_batches([rows(range(count), pa.schema(fields))]), out)
        content = out.getvalue().to_pybytes()
        part = part_of(f"data/{batch}-bench/part-0.parquet", "change", count, content)
        log.storage.put(part.path, content)
        parts = (part,) if count else ()
        counts = {"change": count, "late": 0, "rejected": 0, "duplicate": 0, "dropped_partial": 0}
        manifest = Manifest(
            batch, 1, datetime.now(UTC), None, counts, parts, previous=batch - 1 if batch else None
        )
        log.file(batch).put(manifest.encode())


def rows(numbers: range, schema: Any) -> Any:
    columns = [["upsert"] * len(numbers), [key(n) for n in numbers], list(numbers), [n / 8 for n in numbers]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def server(home: Path) -> Iterator[tuple[str, int]]:
    words = [sys.executable, "-m", "keyfold", "serve", "--home", str(home), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().strip().rpartition("http://")[2]
        host, _, port = address.partition(":")
        try:
            yield host, int(port)
        finally:
            process.terminate()


def show(found: dict[str, dict[str, float]]) -> None:
    table = Table("", "per second", "median ms", "p99 ms", "bar", title="reads over HTTP")
    for what, figures in found.items():
        rate, slowest = figures["per second"], figures.get("p99 ms", 0.0)
        reached = rate >= BARS[what] and (what != "point reads" or slowest <= SLOWEST_MS)
        bar = f"{BARS[what]:,}" + (f", p99 {SLOWEST_MS:g} ms" if what == "point reads" else "")
        cells = [f"{figures[name]:.2f}" if name in figures else "" for name in ("median ms", "p99 ms")]
        table.add_row(what, f"{rate:,.0f}", *cells, f"{'reaches' if reached else 'MISSES'} {bar}")
    Console().print(table)
