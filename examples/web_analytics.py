"""Web analytics: page views per minute, trending pages, and visits.

    $ python examples/web_analytics.py data/views --rows 5000
    $ keyfold run examples/web_analytics.py --drain
    $ keyfold rows web.per_minute --key /cart --since 2026-01-01T09:30 --until 2026-01-01T10:00
    $ keyfold rows web.trending --order-by "views desc" --limit 5
    $ keyfold rows web.visits --where "pages > 10" --order-by "seconds desc"
    $ keyfold side list late web.per_minute
    $ keyfold side show rejected web.views

The first command generates the views. They arrive out of order; some are hours late, one has a clock that is
ten years ahead, and one line is truncated.
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

app = kf.App("web", help="Page views of a site")

views = app.stream(
    "views",
    # One file per batch, so that historical data is read as it arrived, not as a single batch.
    kf.files("data/views", format="json", maxFilesPerTrigger=1),
    schema="visitor string, page string, at timestamp",
    time="at",
    late="5 minutes",
    help="one row per page that a visitor opens",
)

views.by("page").tumbling("1 minute").table(
    "per_minute",
    views="count(*)",
    visitors="count(distinct visitor)",
    keep="7 days",
    help="live counts; late rows can be replayed into them for a week",
)

views.by("page").sliding("10 minutes", every="1 minute").table(
    "trending",
    views="count(*)",
    visitors="count(distinct visitor)",
    emit="final",
    help="the ten minutes up to each full minute, once they are over",
)

views.by("visitor").session("30 minutes").table(
    "visits",
    pages="count(*)",
    entered="min_by(page, at)",
    left="max_by(page, at)",
    seconds="(unix_millis(max(at)) - unix_millis(min(at))) / 1000",
    help="a visit ends after half an hour without a page view",
)


# The data generator

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
PAGES = ("/", "/search", "/tea", "/coffee", "/cart", "/help")
FILES = 4


def generate(directory: Path, rows: int = 5000, seed: int = 7) -> None:
    """Writes files of views in order of arrival; the same seed gives the same rows."""
    arriving = sorted(_views(rows, random.Random(seed)), key=lambda view: view[0])
    lines = [json.dumps(row) for _, row in arriving]
    lines.insert(len(lines) // 2, json.dumps({"visitor": "v1", "page": "/", "at": "2036-01-01T00:00:00Z"}))
    lines.insert(len(lines) // 3, '{"visitor": "v2", "pa')
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        part = lines[len(lines) * number // FILES : len(lines) * (number + 1) // FILES]
        _write(directory / f"{number:03d}.json", part, age=FILES - number)


def _views(rows: int, chance: random.Random) -> Iterator[tuple[float, dict[str, str]]]:
    """Each view with the second of its arrival."""
    made = 0
    while made < rows:
        visitor, second = f"v{chance.randrange(1, 300)}", chance.uniform(0, 4 * 3600)
        for _ in range(min(chance.randint(1, 20), rows - made)):
            at = (START + timedelta(seconds=second)).isoformat(timespec="milliseconds")
            page = chance.choices(PAGES, weights=(6, 4, 3, 3, 2, 1))[0]
            # Most arrive within a minute, one in a hundred arrives two hours late.
            delay = 7200 if chance.random() < 0.01 else chance.uniform(0, 60)
            yield second + delay, {"visitor": visitor, "page": page, "at": at.replace("+00:00", "Z")}
            second += chance.uniform(1, 180)
            made += 1


def _write(file: Path, lines: list[str], age: int) -> None:
    aside = file.with_name(f".{file.name}")
    aside.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    # Spark reads files in order of age; a file must appear whole.
    os.utime(aside, (time.time() - age,) * 2)
    aside.rename(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes up views of pages.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path("data/views"))
    parser.add_argument("--rows", type=int, default=5000)
    given = parser.parse_args()
    generate(given.directory, given.rows)
