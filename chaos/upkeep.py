"""What is done to an app between its lives: keys are erased, late rows replayed."""

from __future__ import annotations

import json
from collections import Counter

import keyfold as kf
from chaos.life import Run

KEY = "u5"
FORGETTING = ("totals", "tumbling_kept", "visitors")
"""Tables that a key is erased from: of files, with windows that are kept, and of messages."""
REPLAYING = ("tumbling_kept", "visited_kept")
"""Tables that retain closed windows: of files and of messages."""


def forget(run: Run) -> None:
    """Erases a key; the app must have processed all that is there. Later rows may bring it back."""
    for table in FORGETTING:
        if not _rows(run, table):
            raise SystemExit(f"{table} has no key {KEY} to forget")
        run.keyfold("forget", f"chaos.{table}", KEY, "--yes", "--json")
        if _rows(run, table):
            raise SystemExit(f"{table} has key {KEY} after it was forgotten")


def replay(run: Run) -> Counter[str]:
    """Replays late rows into windows that are kept, and says how many; the app folds them when it runs."""
    replayed: Counter[str] = Counter()
    for table in REPLAYING:
        told = json.loads(run.keyfold("side", "replay", "late", f"chaos.{table}", "--json"))
        replayed.update({f"{table} {what}": told[what] for what in ("sent", "sent_before", "no_longer_kept")})
    return replayed


def _rows(run: Run, table: str) -> list[dict[str, object]]:
    return kf.read_table(f"chaos.{table}", home=run.home).rows(key=KEY)
