"""Temperature sensors: a moving mean and spread per device, and alerts when a device is out of band.

    $ python examples/iot.py data/readings --rows 4800
    $ keyfold run examples/iot.py --drain
    $ keyfold rows iot.recent --where alert
    $ keyfold rows iot.recent --where "spike and not alert"
    $ keyfold rows iot.newest --where "trend > 3 or trend < -3"
    $ keyfold side list late iot.recent

The first command generates the readings, with anomalies: a device that is out of band now, one that was for a
moment, one that warms slowly, and one that was offline and delivers its old readings late.
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

import keyfold as kf

app = kf.App("iot", help="Temperature sensors")

readings = app.stream(
    "readings",
    # One file per batch, so that historical data is read as it arrived, not as a single batch.
    kf.files("data/readings", format="json", maxFilesPerTrigger=1),
    schema="device string, temp double, at timestamp",
    time="at",
    late="1 minute",
    help="one row per device every five seconds",
)

readings.by("device").rolling("5 minutes").table(
    "recent",
    n="count(*)",
    mean="avg(temp)",
    spread="stddev(temp)",
    now="max_by(temp, at)",
    # Out of band: more than three spreads from the mean; the newest reading, or any in the five minutes.
    alert="abs(max_by(temp, at) - avg(temp)) > 3 * stddev(temp)",
    spike="greatest(max(temp) - avg(temp), avg(temp) - min(temp)) > 3 * stddev(temp)",
    ttl="1 day",
    help="the last five minutes of each device, up to its newest reading",
)

readings.by("device").last(20).table(
    "newest",
    mean="avg(temp)",
    trend="60 * regr_slope(temp, unix_millis(at) / 1000)",
    temps="collect_list(temp)",
    ttl="1 day",
    help="the last twenty readings of each device, and degrees per minute",
)


# The data generator

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
DEVICES = 8
STEP = 5
FILES = 4
HOT, SPIKED, WARMING, OFFLINE = "d2", "d3", "d5", "d7"


def generate(directory: Path, rows: int = 4800, seed: int = 7) -> None:
    """Writes files of readings in order of arrival; the same seed gives the same rows."""
    arriving = sorted(_readings(rows // DEVICES, random.Random(seed)), key=lambda reading: reading[0])
    lines = [json.dumps(row) for _, row in arriving]
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        part = lines[len(lines) * number // FILES : len(lines) * (number + 1) // FILES]
        _write(directory / f"{number:03d}.json", part, age=FILES - number)


def _readings(steps: int, chance: random.Random) -> Iterator[tuple[float, dict[str, object]]]:
    """Each reading with the second of its arrival."""
    for step in range(steps):
        for number in range(DEVICES):
            device, second = f"d{number}", step * STEP + number / DEVICES
            at = (START + timedelta(seconds=second)).isoformat(timespec="milliseconds")
            temp = 20 + number + chance.uniform(-1, 1) + _planted(device, steps - step)
            # Slightly out of order; the offline device delivers part of its readings near the end.
            offline = device == OFFLINE and 0.2 * steps <= step < 0.3 * steps
            arrival = 0.9 * steps * STEP if offline else second + chance.uniform(0, 20)
            yield arrival, {"device": device, "temp": round(temp, 3), "at": at.replace("+00:00", "Z")}


def _planted(device: str, left: int) -> float:
    """The error planted in a device's reading, given the number of readings left, including this one."""
    if device == HOT:
        return 12.0 if left == 1 else 0.0
    if device == SPIKED:
        return -12.0 if left == 25 else 0.0
    if device == WARMING:
        return max(0, 36 - left) * 0.4
    return 0.0


def _write(file: Path, lines: list[str], age: int) -> None:
    aside = file.with_name(f".{file.name}")
    aside.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    # Spark reads files in order of age; a file must appear whole.
    os.utime(aside, (time.time() - age,) * 2)
    aside.rename(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes up readings of devices.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path("data/readings"))
    parser.add_argument("--rows", type=int, default=4800)
    given = parser.parse_args()
    generate(given.directory, given.rows)
