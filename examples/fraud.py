"""Fraud patterns: card testing, impossible travel, bursts of payments, account takeover.

    $ python examples/fraud.py data
    $ keyfold describe examples/fraud.py
    $ keyfold run examples/fraud.py --drain
    $ keyfold rows fraud.card_testing --order-by "lost desc" --limit 5
    $ keyfold rows fraud.impossible_travel --order-by "km desc" --limit 5
    $ keyfold rows fraud.velocity --limit 5
    $ keyfold rows fraud.account_takeover --where "sent > 1000"

The first command generates a day of payments and account events, and prints how much fraud it planted. Each
kind of fraud stands among honest rows that almost match.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import keyfold as kf

app = kf.App("fraud", help="Fraud in payments and accounts")

# One file per batch, so that historical data is read as it arrived, not as a single batch.
ONE_BY_ONE = {"format": "json", "maxFilesPerTrigger": 1}

payments = app.stream(
    "payments",
    kf.files("data/payments", **ONE_BY_ONE),
    schema="card string, amount double, place string, lat double, lon double, at timestamp",
    time="at",
    late="2 minutes",
    help="one row per payment; online payments have no place",
)

events = app.stream(
    "events",
    kf.files("data/events", **ONE_BY_ONE),
    schema="account string, kind string, device string, amount double, at timestamp",
    time="at",
    late="2 minutes",
    help="account events: login, password_changed, device_added, confirmed, transfer",
)

# A thief tests a card with small payments, then charges a large amount.
probe = kf.step("probe", "amount < 2", times=(3, None))
strike = kf.step("strike", "amount > 100 and amount > 200 * array_avg(probe.amount)")

payments.by("card").pattern(
    "card_testing",
    probe >> strike,
    within="10 minutes",
    returns={"probes": "size(probe)", "lost": "strike[0].amount"},
    ttl="30 days",
    help="at least three small payments, then one 200 times as large",
)


def km(a: str, b: str) -> str:
    """SQL for the distance in km between two rows: the haversine formula."""
    across = f"pow(sin(radians({b}lat - {a}lat) / 2), 2)"
    along = f"cos(radians({a}lat)) * cos(radians({b}lat)) * pow(sin(radians({b}lon - {a}lon) / 2), 2)"
    # For antipodes rounding may give slightly more than 1, for which asin is NaN.
    return f"2 * 6371 * asin(sqrt(least(1.0, {across} + {along})))"


def hours(a: str, b: str) -> str:
    """SQL for the hours from the first row to the second."""
    return f"(unix_millis({b}at) - unix_millis({a}at)) / 3600000"


# No airliner flies 1000 km in an hour; up to 20 km may be within one town, with inexact clocks. Comparing
# neighbours is enough: if each step between payments is possible, so is a trip over several.
here = kf.step("here")
there = kf.step("there", f"{km('prev.', '')} > 20 + 1000 * {hours('prev.', '')}")

payments.where("lat is not null and lon is not null").by("card").pattern(
    "impossible_travel",
    here.then(there),
    within="1 hour",
    returns={
        "left": "here[0].place",
        "reached": "there[0].place",
        "km": f"round({km('here[0].', 'there[0].')})",
        "minutes": f"round(60 * {hours('here[0].', 'there[0].')}, 1)",
    },
    ttl="30 days",
    help="two payments too far apart for the time between them",
)

MOST = 8

payments.by("card").pattern(
    "velocity",
    kf.step("paid", times=MOST + 1),
    within="10 minutes",
    returns={"spent": "round(array_sum(paid.amount), 2)"},
    ttl="30 days",
    help=f"more than {MOST} payments in ten minutes",
)

changed = kf.step("changed", "kind = 'password_changed'")
unconfirmed = kf.no("confirmed", "kind = 'confirmed'")
added = kf.step("added", "kind = 'device_added'")
transfer = kf.step("transfer", "kind = 'transfer' and device = added[0].device")

# Any new device: the one used for the transfer need not be the first one added.
events.by("account").pattern(
    "account_takeover",
    (changed >> unconfirmed).any(added) >> unconfirmed >> transfer,
    within="1 hour",
    returns={"device": "added[0].device", "sent": "transfer[0].amount"},
    ttl="30 days",
    help="a new password, a new device and a transfer from it, without a confirmation in between",
)


# The data generator

START = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = 24
FILES = 4

PARIS, LILLE, LONDON = ("Paris", 48.857, 2.352), ("Lille", 50.629, 3.057), ("London", 51.507, -0.128)
FAR = (("New York", 40.713, -74.006), ("Singapore", 1.352, 103.82), ("Lagos", 6.524, 3.379))

Row: TypeAlias = dict[str, object]
Place: TypeAlias = tuple[str, float, float]
Told: TypeAlias = tuple[float, Row]
"""A row and its second."""
Case: TypeAlias = tuple[str, str, str]
"""A planted fraud: its card or account, and the times of its first and last row."""


def make(seed: int = 7, each: int = 12) -> tuple[dict[str, list[Row]], dict[str, list[Case]]]:
    """Rows of each stream in order of arrival, and the `each` cases that every table must find."""
    chance = random.Random(seed)
    told: dict[str, list[Told]] = {"payments": list(_days(chance)), "events": list(_logins(chance))}
    planted: dict[str, list[Case]] = {}
    kinds = {
        "card_testing": (_card_testing, _almost_card_testing),
        "impossible_travel": (_impossible_travel, _almost_impossible_travel),
        "velocity": (_velocity, _almost_velocity),
        "account_takeover": (_account_takeover, _almost_account_takeover),
    }
    for table, (fraud, almost) in kinds.items():
        rows = told["events" if table == "account_takeover" else "payments"]
        planted[table] = []
        for number in range(each):
            case, made = fraud(f"{table[0]}{number}", _begin(chance), chance, number)
            planted[table].append(case)
            rows += made
        for number in range(2 * each):
            rows += almost(f"{table[0]}{each + number}", _begin(chance), chance, number)
    return {stream: _arriving(rows, chance) for stream, rows in told.items()}, planted


def _begin(chance: random.Random) -> float:
    # Not in the last hours, so that the watermark passes every planted case.
    return round(chance.uniform(3, HOURS - 4) * 3600, 3)


def _payment(card: str, second: float, amount: float, place: Place | None = None) -> Told:
    name, lat, lon = place or (None, None, None)
    at = _text(second)
    return second, {"card": card, "amount": round(amount, 2), "place": name, "lat": lat, "lon": lon, "at": at}


def _event(account: str, second: float, kind: str, device: str, amount: float | None = None) -> Told:
    return second, {"account": account, "kind": kind, "device": device, "amount": amount, "at": _text(second)}


def _near(place: Place, chance: random.Random) -> Place:
    """A shop in the town."""
    name, lat, lon = place
    return name, round(lat + chance.uniform(-0.03, 0.03), 4), round(lon + chance.uniform(-0.03, 0.03), 4)


def _days(chance: random.Random) -> Iterator[Told]:
    """A day of payments by two hundred people, some of them online."""
    for number in range(200):
        second = chance.uniform(0, 8 * 3600)
        while second < HOURS * 3600:
            place = _near(PARIS, chance) if chance.random() < 0.8 else None
            yield _payment(f"h{number}", second, chance.lognormvariate(3, 1) + 1, place)
            second += chance.uniform(600, 4 * 3600)


def _logins(chance: random.Random) -> Iterator[Told]:
    """What two hundred people do with their accounts in a day."""
    for number in range(200):
        account, phone = f"h{number}", f"phone of h{number}"
        for _ in range(chance.randint(1, 6)):
            second = chance.uniform(0, HOURS * 3600)
            yield _event(account, second, "login", phone)
            if chance.random() < 0.5:
                yield _event(account, second + 60, "transfer", phone, chance.randint(5, 3000))


def _case(made: list[Told], last: int, key: str = "card") -> Case:
    return str(made[0][1][key]), str(made[0][1]["at"]), str(made[last][1]["at"])


def _card_testing(card: str, begin: float, chance: random.Random, number: int) -> tuple[Case, list[Told]]:
    """Three to six probes, now and then a payment of the owner's between them, and the charge."""
    probes = [_payment(card, begin + 60 * n, chance.uniform(0.1, 1)) for n in range(3 + number % 4)]
    made = [*probes, _payment(card, begin + chance.uniform(400, 599), chance.uniform(250, 900))]
    own = [_payment(card, begin + 90, chance.uniform(10, 90), PARIS)] if number % 2 else []
    return _case(made, -1), [*made, *own]


def _almost_card_testing(card: str, begin: float, chance: random.Random, number: int) -> list[Told]:
    def small(*seconds: float, least: float = 0.1) -> list[Told]:
        return [_payment(card, begin + s, chance.uniform(least, least + 0.4)) for s in seconds]

    large = chance.uniform(250, 290)
    return [
        # Only two probes; a charge that is not large enough; one exactly at the end of `within`; one before.
        [*small(0, 60), _payment(card, begin + 120, large)],
        [*small(0, 60, 120, least=1.5), _payment(card, begin + 300, large)],
        [*small(0, 60, 120), _payment(card, begin + 600, large)],
        [_payment(card, begin, large), *small(60, 120, 180)],
    ][number % 4]


def _impossible_travel(
    card: str, begin: float, chance: random.Random, number: int
) -> tuple[Case, list[Told]]:
    """A payment at home, and within the hour one far away; the owner pays online between, then at home."""
    gap = (5.0, chance.uniform(60, 1800), 3599.0)[number % 3]
    made = [_payment(card, begin, 30, PARIS), _payment(card, begin + gap, 400, chance.choice(FAR))]
    own = [_payment(card, begin + gap / 2, 12), _payment(card, begin + gap + 600, 9, _near(PARIS, chance))]
    return _case(made, -1), [*made, *own]


def _almost_impossible_travel(card: str, begin: float, chance: random.Random, number: int) -> list[Told]:
    # A fast train; an airliner; two shops of one town within a second; a long flight.
    ways = [(LILLE, 3500.0), (LONDON, 3000.0), (_near(PARIS, chance), 1.0), (FAR[0], 8 * 3600.0)]
    place, gap = ways[number % 4]
    return [_payment(card, begin / 2, 30, PARIS), _payment(card, begin / 2 + gap, 40, place)]


def _velocity(card: str, begin: float, chance: random.Random, number: int) -> tuple[Case, list[Told]]:
    """Nine payments or some more, the ninth just in time or long before."""
    gap = 74.9 if number % 2 else chance.uniform(5, 40)
    made = [_payment(card, begin + gap * n, chance.uniform(15, 60)) for n in range(MOST + 1 + number % 5)]
    return _case(made, MOST), made


def _almost_velocity(card: str, begin: float, chance: random.Random, number: int) -> list[Told]:
    # As many as allowed, at once; one more, just after the time is over; and a regular customer.
    count, gap = [(MOST, 1.0), (MOST + 1, 75.0), (40, 80.0)][number % 3]
    return [_payment(card, begin + gap * n, chance.uniform(3, 9)) for n in range(count)]


def _account_takeover(
    account: str, begin: float, chance: random.Random, number: int
) -> tuple[Case, list[Told]]:
    """A new password, one new device or two, a transfer by the last; the owner may log in meanwhile."""
    new = [f"{account} new {n}" for n in range(1 + number % 2)]
    made = [_event(account, begin, "password_changed", "browser")]
    made += [_event(account, begin + 300 * n, "device_added", device) for n, device in enumerate(new, 1)]
    made.append(_event(account, begin + chance.uniform(900, 3599), "transfer", new[-1], 100 * (number + 1)))
    own = [
        _event(account, begin + 120, "login", "phone"),
        _event(account, begin + 700, "transfer", "phone", 20),
    ]
    return _case(made, -1, "account"), [*made, *own]


def _almost_account_takeover(account: str, begin: float, chance: random.Random, number: int) -> list[Told]:
    kinds, last = [
        # Confirmed after the password, and after the device.
        (("password_changed", "confirmed", "device_added", "transfer"), "new"),
        (("password_changed", "device_added", "confirmed", "transfer"), "new"),
        # From the usual phone; the device was added first; no transfer.
        (("password_changed", "device_added", "transfer"), "phone"),
        (("device_added", "password_changed", "transfer"), "new"),
        (("password_changed", "device_added", "login"), "new"),
        # Everything, but the transfer comes after the hour.
        (("password_changed", "login", "device_added", "login", "login", "transfer"), "new"),
    ][number % 6]
    gap = 3600 / (len(kinds) - 1) if len(kinds) == 6 else chance.uniform(60, 600)
    devices = [*(["new"] * (len(kinds) - 1)), last]
    amounts = [500.0 if kind == "transfer" else None for kind in kinds]
    rows = zip(kinds, devices, amounts, strict=True)
    return [_event(account, begin + gap * n, *row) for n, row in enumerate(rows)]


def _text(second: float) -> str:
    at = (START + timedelta(seconds=second)).isoformat(timespec="milliseconds")
    return at.replace("+00:00", "Z")


def _arriving(rows: list[Told], chance: random.Random) -> list[Row]:
    """Each arrives within a minute, so that many are out of order."""
    return [
        row for _, row in sorted(((s + chance.uniform(0, 60), r) for s, r in rows), key=lambda told: told[0])
    ]


def parts(rows: list[Row]) -> list[list[Row]]:
    """The rows as files, one after the other."""
    return [rows[len(rows) * n // FILES : len(rows) * (n + 1) // FILES] for n in range(FILES)]


def generate(directory: Path, seed: int = 7, each: int = 12) -> dict[str, list[Case]]:
    """Writes a directory per stream, and returns what was planted; the same seed gives the same rows."""
    made, planted = make(seed, each)
    for stream, rows in made.items():
        (directory / stream).mkdir(parents=True, exist_ok=True)
        for number, part in enumerate(parts(rows)):
            _write(directory / stream / f"{number:03d}.json", part, age=FILES - number)
    return planted


def _write(file: Path, rows: list[Row], age: int) -> None:
    aside = file.with_name(f".{file.name}")
    aside.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    # Spark reads files in order of age; a file must appear whole.
    os.utime(aside, (time.time() - age,) * 2)
    aside.rename(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Makes up payments and events of accounts, with fraud in them."
    )
    parser.add_argument("directory", type=Path, nargs="?", default=Path("data"))
    parser.add_argument("--each", type=int, default=12, help="cases of each kind of fraud")
    given = parser.parse_args()
    for table, cases in generate(given.directory, each=given.each).items():
        print(f"{table}: {len(cases)} planted")
