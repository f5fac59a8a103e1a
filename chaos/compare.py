"""What two homes of the app have, read with keyfold's own commands, and where they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from chaos import events
from chaos.life import APP
from keyfold.cli import main as cli_main

# What is read of each table; and of that, what depends on where batches end and on when the app ran.
READ = {
    "view": (("rows",), ("_at", "_batch")),
    # Each run has a topic of its own.
    "rejected": (("side", "show", "rejected"), ("at", "batch", "topic")),
    "late": (("side", "show", "late"), ("at", "batch")),
}
# How late a message is: the watermark depends on where batches end, and only a file is a batch in every run.
OF_LATE_MESSAGES = ("late_by", "reason", "watermark")
COUNTS = ("late", "rejected", "duplicates")


@dataclass(frozen=True)
class Compared:
    """Rows of one table, or rows of a side output, in both homes."""

    name: str
    rows: int
    differences: tuple[str, ...]


def tables() -> list[str]:
    """The app's tables."""
    return [table["name"] for table in _keyfold("describe", APP)["tables"]]


def streams() -> list[str]:
    """The app's streams: several tables read each, so that lines which do not parse are in its log."""
    return [stream["name"] for stream in _keyfold("describe", APP)["streams"]]


def compare(
    clean: Path, killed: Path, names: Sequence[str], replayed: tuple[Counter[str], Counter[str]]
) -> list[Compared]:
    """All views, rejected rows of tables and streams, late rows, and what the status counts.

    And how many late rows were replayed in each.
    """
    read = [(name, what) for name in names for what in READ] + [(name, "rejected") for name in streams()]
    rows = [
        _compared(f"{name}, {what}", _read(clean, name, what), _read(killed, name, what))
        for name, what in read
    ]
    counts = _compared("counts of the status", _counts(clean), _counts(killed))
    return [*rows, counts, _compared("late rows of replays", *replayed)]


def _read(place: Path, name: str, what: str) -> Counter[str]:
    command, _ = READ[what]
    found = _keyfold(*command, f"chaos.{name}", "--home", place / ".keyfold")
    rows: list[dict[str, Any]] = found if isinstance(found, list) else found["rows"]
    texts = ({key: value for key, value in row.items() if key not in _of_run(row, what)} for row in rows)
    # Rejected rows name their file, which is in another directory in each run.
    return Counter(json.dumps(row, sort_keys=True).replace(f"{place.resolve()}/", "") for row in texts)


def _of_run(row: dict[str, Any], what: str) -> tuple[str, ...]:
    """The columns that differ from run to run."""
    _, own = READ[what]
    of_message = what == "late" and row["stream"] == events.MESSAGES
    return (*own, *OF_LATE_MESSAGES) if of_message else own


def _counts(place: Path) -> Counter[str]:
    status = _keyfold("status", "chaos", "--home", place / ".keyfold")[0]
    queries = {**status["streams"], **status["tables"]}
    return Counter(f"{name} {what} {found.get(what)}" for name, found in queries.items() for what in COUNTS)


def _compared(name: str, clean: Counter[str], killed: Counter[str]) -> Compared:
    missing, added = clean - killed, killed - clean
    differences = [f"missing: {row}" for row in missing.elements()] + [
        f"too many: {row}" for row in added.elements()
    ]
    return Compared(name, clean.total(), tuple(differences))


def _keyfold(*words: object) -> Any:
    """What a command prints; in this process, since there are a hundred of them."""
    with redirect_stdout(StringIO()) as out:
        code = cli_main.main([*map(str, words), "--json"])
    if code:
        raise SystemExit(f"keyfold {' '.join(map(str, words))} ended with {code}")
    return json.loads(out.getvalue())
