"""The examples with windows and joins: what they tell a reader to type is typed, and the result recounted."""

from __future__ import annotations

import ast
import csv
import io
import json
import runpy
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.docs.doc_pages import keyfold, typed

pytestmark = pytest.mark.jvm
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINUTE = timedelta(minutes=1)

Rows = list[dict[str, Any]]


def run_example(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Types the commands of an example's first lines: what each printed."""
    (place / "examples").symlink_to(EXAMPLES)
    told = ast.get_docstring(ast.parse((EXAMPLES / name).read_text("utf-8"))) or ""
    printed = {}
    for line, _ in typed("\n".join(line.strip() for line in told.splitlines())):
        words = shlex.split(line)
        if words[0] == "python":
            monkeypatch.setattr(sys, "argv", words[1:])
            runpy.run_path(words[1], run_name="__main__")
        else:
            code, printed[line] = keyfold(words[1:])
            assert code == 0, f"{line}\n{printed[line]}"
    return printed


def read(*words: str) -> Any:
    """What a command prints with --json."""
    from keyfold.cli.main import main

    out = io.StringIO()
    with redirect_stdout(out):
        assert main([*words, "--json"]) == 0
    return json.loads(out.getvalue())


def batches(directory: Path) -> Iterator[tuple[datetime, Rows]]:
    """Each file's rows that can be used, and the newest time of the files before it."""
    newest = datetime.min.replace(tzinfo=UTC)
    for file in sorted(directory.glob("*.json")):
        rows = [row for row in map(_parsed, file.read_text("utf-8").splitlines()) if row]
        yield newest, rows
        newest = max([newest, *(row["at"] for row in rows)])


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    at = moment(row["at"])
    return None if at.year > 2030 else {**row, "at": at}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# Web


def test_the_web_analytics_are_what_a_recount_gives(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_example("web_analytics.py", place, monkeypatch)
    found = list(batches(place / "data" / "views"))
    assert len(found) == 4
    for table, size in (("per_minute", MINUTE), ("trending", 10 * MINUTE)):
        expected, late = windows(found, size, finals=table == "trending")
        rows = {
            (r["page"], moment(r["window_start"])): (r["views"], r["visitors"])
            for r in read("rows", f"web.{table}")
        }
        assert rows == expected
        assert len(read("side", "show", "late", f"web.{table}")) == late
        assert late > 10
    expected_visits, late = visits(found)
    rows = {
        (r["visitor"], moment(r["window_start"]), moment(r["window_end"])): tuple(
            r[column] for column in ("pages", "entered", "left", "seconds")
        )
        for r in read("rows", "web.visits")
    }
    assert rows == expected_visits
    assert len(read("side", "show", "late", "web.visits")) == late
    reasons = [row["reason"] for row in read("side", "show", "rejected", "web.views")["rows"]]
    assert sorted(reasons) == [
        "does not parse",
        "event time 2036-01-01T00:00:00Z is too far in the future",
    ]
    assert all("/cart" in line for line in printed_rows(printed, "--key /cart"))


def printed_rows(printed: dict[str, str], command: str) -> list[str]:
    (text,) = (text for line, text in printed.items() if command in line)
    rows = text.splitlines()[2:]
    assert rows, command
    return rows


def windows(found: list[tuple[datetime, Rows]], size: timedelta, finals: bool) -> tuple[dict[Any, Any], int]:
    """Views and visitors of each page and window of that size, a minute apart; how many rows were late."""
    seen: dict[Any, list[str]] = defaultdict(list)
    late = 0
    for newest, rows in found:
        watermark = newest - 5 * MINUTE if newest.year > 1 else newest
        for row in rows:
            last = row["at"].replace(second=0, microsecond=0)
            starts = [last - n * MINUTE for n in range(size // MINUTE)]
            late += any(start + size <= watermark for start in starts)
            for start in starts:
                if start + size > watermark:
                    seen[row["page"], start].append(row["visitor"])
    over = max(row["at"] for _, rows in found for row in rows) - 5 * MINUTE
    shown = {place: v for place, v in seen.items() if not finals or place[1] + size <= over}
    return {place: (len(v), len(set(v))) for place, v in shown.items()}, late


def visits(found: list[tuple[datetime, Rows]]) -> tuple[dict[Any, Any], int]:
    """Pages, the first and the last of them, and seconds of each visit, and how many rows were late."""
    gap, late = 30 * MINUTE, 0
    closed: list[Rows] = []
    living: list[Rows] = []
    for newest, rows in found:
        watermark = newest - 5 * MINUTE if newest.year > 1 else newest
        over = [visit for visit in living if visit[-1]["at"] + gap <= watermark]
        closed += over
        old = [row for visit in living if visit not in over for row in visit]
        living = []
        for visit in apart(old + rows, gap):
            # New rows that would make a visit of their own, which is over already, are late.
            if visit[-1]["at"] + gap <= watermark and not any(row in old for row in visit):
                late += len(visit)
            else:
                living.append(visit)
    return {
        (v[0]["visitor"], v[0]["at"], v[-1]["at"] + gap): (
            len(v),
            v[0]["page"],
            v[-1]["page"],
            (v[-1]["at"] - v[0]["at"]).total_seconds(),
        )
        for v in closed + living
    }, late


def apart(rows: Rows, gap: timedelta) -> list[Rows]:
    """Rows of one visitor that are no further apart than the gap, together."""
    ordered = sorted(rows, key=lambda row: (row["visitor"], row["at"]))
    ends = [
        n
        for n, (a, b) in enumerate(pairwise(ordered), 1)
        if a["visitor"] != b["visitor"] or b["at"] - a["at"] > gap
    ]
    return [ordered[a:b] for a, b in pairwise([0, *ends, len(ordered)])]


# Devices


def test_the_devices_are_what_a_recount_gives(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_example("iot.py", place, monkeypatch)
    example = runpy.run_path(str(EXAMPLES / "iot.py"))
    found = list(batches(place / "data" / "readings"))
    recent, late = kept(found, lambda rows: [r for r in rows if r["at"] > rows[-1]["at"] - 5 * MINUTE])
    rows = {row["device"]: row for row in read("rows", "iot.recent")}
    assert rows.keys() == recent.keys()
    for device, readings in recent.items():
        temps = [row["temp"] for row in readings]
        mean, spread = statistics.mean(temps), statistics.stdev(temps)
        assert rows[device]["n"] == len(temps)
        assert [rows[device][c] for c in ("mean", "spread")] == pytest.approx([mean, spread])
        assert rows[device]["now"] == temps[-1]
        assert rows[device]["alert"] == (abs(temps[-1] - mean) > 3 * spread)
    assert len(read("side", "show", "late", "iot.recent")) == late == 60
    assert {json.loads(r["raw"])["device"] for r in read("side", "show", "late", "iot.recent")} == {
        example["OFFLINE"]
    }

    newest, _ = kept(found, lambda rows: rows[-20:])
    rows = {row["device"]: row for row in read("rows", "iot.newest")}
    for device, readings in newest.items():
        temps = [row["temp"] for row in readings]
        minutes = [(row["at"] - readings[0]["at"]) / MINUTE for row in readings]
        assert sorted(rows[device]["temps"]) == sorted(temps)
        slope = statistics.linear_regression(minutes, temps).slope
        assert rows[device]["trend"] == pytest.approx(slope, rel=1e-6)

    for command, planted in (
        ("--where alert", "HOT"),
        ("spike and not", "SPIKED"),
        ("trend > 3", "WARMING"),
    ):
        assert [line.split()[0] for line in printed_rows(printed, command)] == [example[planted]]


def kept(found: list[tuple[datetime, Rows]], covered: Any) -> tuple[dict[str, Rows], int]:
    """The readings of each device that are covered after the last batch, and how many came too late."""
    rows: dict[str, Rows] = {}
    late = 0
    for _, batch in found:
        for device in {row["device"] for row in batch}:
            new = [row for row in batch if row["device"] == device]
            old = rows.get(device, [])
            late += sum(1 for row in new if old and row not in covered(ordered([*old, row])))
            rows[device] = covered(ordered(old + new))
    return rows, late


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["at"])


# Orders


def test_the_orders_are_what_a_recount_gives(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_example("orders.py", place, monkeypatch)
    data = place / "data"
    found = {name: list(batches(data / name)) for name in ("orders", "payments", "profiles")}
    sent = [row for _, rows in found["orders"] for row in rows]
    orders = {row["id"]: row for row in sent}
    repeats = len(sent) - len(orders)
    assert repeats > 20
    with (data / "prices.csv").open(encoding="utf-8") as file:
        prices = {row["sku"]: row for row in csv.DictReader(file)}
    priced = [(row, prices[row["sku"]]) for row in orders.values() if row["sku"] in prices]
    assert len(priced) < len(orders)

    rows = {r["tier"]: (r["orders"], Decimal(r["revenue"])) for r in read("rows", "store.tiers")}
    tiers = newest_tiers(row for _, rows in found["profiles"] for row in rows)
    assert rows == totals((tiers.get(row["customer"], "unknown"), row, price) for row, price in priced)
    assert rows.keys() == {"basic", "silver", "gold", "unknown"}

    sold = totals(((price["category"], price["product"]), row, price) for row, price in priced)
    best = {
        (r["category"], r["rank"]): (r["product"], Decimal(r["revenue"]))
        for r in read("rows", "store.best_sellers")
    }
    assert best == best_two(sold)
    assert len(printed_rows(printed, "best_sellers")) == 6

    unpaid, late = not_paid(orders, found["orders"], found["payments"])
    assert {r["id"]: r["customer"] for r in read("rows", "store.unpaid")} == {
        id: orders[id]["customer"] for id in unpaid
    }
    assert len(unpaid) > 100
    told = read("side", "show", "late", "store.unpaid")
    assert sorted(json.loads(r["raw"])["id"] for r in told) == sorted(late)
    assert {r["stream"] for r in told} == {"payments"}
    assert len(late) > 10
    (status,) = read("status", "store")
    assert status["tables"]["tiers"]["duplicates"] == status["tables"]["sales"]["duplicates"] == repeats
    assert status["lookups"]["prices"]["rows"] == len(prices)


def newest_tiers(profiles: Any) -> dict[str, str]:
    """The tier that each customer has at last, by time."""
    return {row["customer"]: row["tier"] for row in sorted(profiles, key=lambda row: row["at"])}


def totals(given: Any) -> dict[Any, tuple[int, Decimal]]:
    """Orders and revenue of each group."""
    found: dict[Any, tuple[int, Decimal]] = {}
    for group, row, price in given:
        n, revenue = found.get(group, (0, Decimal(0)))
        found[group] = n + 1, revenue + row["quantity"] * Decimal(price["price"])
    return found


def best_two(sold: dict[Any, tuple[int, Decimal]]) -> dict[Any, Any]:
    """The two products of each category with the highest revenue."""
    found = {}
    for category in {category for category, _ in sold}:
        mine = [(-revenue, product) for (c, product), (_, revenue) in sold.items() if c == category]
        for rank, (revenue, product) in enumerate(sorted(mine)[:2], 1):
            found[category, rank] = product, -revenue
    return found


def not_paid(
    orders: dict[str, Any], ordered: list[tuple[datetime, Rows]], paid: list[tuple[datetime, Rows]]
) -> tuple[set[str], list[str]]:
    """Orders that no payment came for in time, and orders whose payment came after the watermark."""
    allowed, known, late = 10 * MINUTE, set(), []
    for (a, _), (b, rows) in zip(ordered, paid, strict=True):
        before = min(a, b)
        for row in rows:
            if before.year > 1 and row["at"] < before - allowed:
                late.append(row["id"])
            elif timedelta(0) <= row["at"] - orders[row["id"]]["at"] <= 60 * MINUTE:
                known.add(row["id"])
    watermark = min(max(r["at"] for _, rows in side for r in rows) for side in (ordered, paid)) - allowed
    over = {id for id, row in orders.items() if row["at"] + 60 * MINUTE < watermark}
    return over - known, late
