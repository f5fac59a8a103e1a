"""Generates visits: a few customers come often, most rarely, and some rows are malformed."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

REGIONS: Final = ("eu", "us", "asia", "africa")
PRODUCTS: Final = ("tea", "coffee", "honey", "bread", "cheese", "olives", "soap", "candles")
PAGES: Final = ("home", "search", "product", "basket", "help")
VISITS_PER_TICK: Final = 300
TICK_SECONDS: Final = 0.5


class Generator:
    """Writes a file of orders and one of clicks per tick, the same visits in every run."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._chance = random.Random(7)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keyfold-demo", daemon=True)
        self.error: Exception | None = None
        for kind in ("orders", "clicks"):
            (data / kind).mkdir(parents=True, exist_ok=True)
        # Files of an earlier demo in the same directory stay.
        self._number = sum(1 for _ in (data / "orders").glob("*.json"))

    def __enter__(self) -> Generator:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self) -> None:
        """Starts writing files, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops after the current files; raises what went wrong."""
        self._end()
        if self.error is not None:
            raise self.error

    def _end(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def tick(self, now: datetime) -> None:
        """Writes the visits of one tick."""
        orders: list[str] = []
        clicks: list[str] = []
        for visit in range(VISITS_PER_TICK):
            self._visit(f"v{self._number}-{visit}", now, orders.append, clicks.append)
        # A few malformed rows, from the first file on.
        clicks.insert(len(clicks) // 2, '{"visit": "v", "customer": "c1", "pa')
        for kind, lines in (("orders", orders), ("clicks", clicks)):
            temporary = self._data / kind / f".{self._number:06d}"
            temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            temporary.rename(self._data / kind / f"{self._number:06d}.json")
        self._number += 1

    def _run(self) -> None:
        try:
            while True:
                self.tick(datetime.now(UTC))
                if self._over.wait(TICK_SECONDS):
                    return
        except Exception as error:  # such as a full disk; raised at the end, where it is visible
            self.error = error

    def _visit(
        self, visit: str, now: datetime, order: Callable[[str], None], click: Callable[[str], None]
    ) -> None:
        chance = self._chance
        customer = f"c{min(int(chance.paretovariate(0.8) * 20), 100_000)}"
        began = now - timedelta(seconds=chance.random() * 60)
        for step in range(chance.choices((1, 2, 3, 5, 9), weights=(5, 4, 3, 2, 1))[0]):
            at = began + timedelta(seconds=step * 5)
            row = {"visit": visit, "customer": customer, "page": chance.choice(PAGES), "at": _iso(at)}
            click(json.dumps(row))
        for number in range(chance.choices((0, 1, 2), weights=(5, 4, 1))[0]):
            order(self._order(f"{visit}-{number}", customer, began))

    def _order(self, identity: str, customer: str, at: datetime) -> str:
        chance = self._chance
        row: dict[str, Any] = {
            "id": identity,
            "customer": customer,
            "region": chance.choices(REGIONS, weights=(5, 3, 2, 1))[0],
            "product": chance.choice(PRODUCTS),
            "amount": round(chance.lognormvariate(3, 1), 2),
            "at": _iso(at),
        }
        kind = chance.random()
        if kind < 0.003:
            return json.dumps({**row, "region": None})
        if kind < 0.006:
            return json.dumps({**row, "amount": "a lot"})
        return json.dumps(row)


def rows_of(home: Path) -> Iterator[dict[str, Any]]:
    """The rows that parse, of all files of a stream."""
    for file in sorted(home.glob("*.json")):
        for line in file.read_text("utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
