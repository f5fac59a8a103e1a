"""Formats numbers, sizes, durations and times for people, in a few characters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.read.values import plain

if TYPE_CHECKING:
    from keyfold.read.metrics import TableStatus

NONE: Final = "-"
SOMETIMES: Final = ("duplicates", "dropped_partials")
"""Counts of a table's status that are shown only if there are any."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN_BARS: Final = "_.-=+*#@"


def count(number: float | None) -> str:
    """950, 12.3k, 4.56M."""
    if number is None:
        return NONE
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From where three digits round up to the unit; up to ten thousand the number is written out.
        if number >= unit * 0.9995 and number >= 10_000:
            return f"{number / unit:.3g}{name}"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def size(number: float | None) -> str:
    """Bytes: 512 B, 2.0 MB."""
    if number is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError


def span(seconds: float | None) -> str:
    """A duration in its two largest units: 350 ms, 12 s, 3 min 20 s, 5 d 2 h."""
    if seconds is None:
        return NONE
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, name, below, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def about(seconds: float | None) -> str:
    """A duration in its largest unit: 350 ms, 3.2 s, 2 h."""
    return " ".join(span(seconds).split()[:2])


def short(value: Any) -> Any:
    """A value of a row, floating-point numbers with two digits."""
    return f"{value:,.2f}" if isinstance(value, float) else value


def moment(value: datetime | str | None) -> str:
    """A timestamp without its fraction of a second."""
    if value is None:
        return NONE
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return str(plain(at.replace(microsecond=0)))


def sparkline(values: Sequence[float], width: int, encoding: str = "utf-8", low: float = 0) -> str:
    """The newest values as bars, from `low` to the highest value."""
    bars = _BARS if encoding.lower().replace("-", "").startswith("utf") else _PLAIN_BARS
    shown = [value - low for value in list(values)[-width:]]
    top = max(shown, default=0)
    if not 0 < top < float("inf"):
        return bars[0] * len(shown)
    return "".join(bars[min(len(bars) - 1, int(value / top * len(bars)))] for value in shown)


def status_row(name: str, table: TableStatus) -> dict[str, str]:
    """The status of one table as the live screen and `keyfold status` show it."""
    return {
        "table": name,
        "rows/s": count(table.rows_per_second),
        "rows": count(table.rows),
        "keys": count(table.keys),
        "state": size(table.state_bytes),
        "batch": count(table.batch),
        "took": span(None if table.batch_ms is None else table.batch_ms / 1000),
        "watermark": moment(table.watermark),
        "behind": span(table.lag_seconds),
        "late": count(table.late),
        "rejected": count(table.rejected),
        **{name: count(getattr(table, name)) for name in SOMETIMES if getattr(table, name)},
    }
