"""How `keyfold state size` shows the growth of a table, and when it reaches a bound."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli import formatting, output
from keyfold.errors import BadOption

if TYPE_CHECKING:
    from keyfold.engine.status.size_forecast import Forecast, Growth

_UNITS: Final = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}


def bytes_of(text: str) -> int:
    """A size as people write it.

    >>> bytes_of("10 GB"), bytes_of("512kB")
    (10000000000, 512000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?b?)", text.strip(), re.IGNORECASE)
    unit = "" if found is None else found[2].upper()
    size = 0 if found is None else int(float(found[1]) * _UNITS.get(unit, _UNITS.get(f"{unit}B", 1)))
    if size <= 0:
        raise BadOption("not a size", given=f"--bound {text}", hint="such as 500MB, or 10GB")
    return size


def as_json(found: Forecast, bound: int | None) -> dict[str, Any]:
    """The forecast for JSON."""
    return {
        "samples": found.samples,
        "since": found.since,
        "until": found.until,
        "too_little": found.too_little,
        "rows_per_hour": _document(found.rows),
        "bytes_per_hour": _document(found.bytes),
        "bound": None if bound is None or found.bytes is None else _bound_document(found, found.bytes, bound),
    }


def _document(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {"now": growth.now, "median": growth.per_hour, "low": growth.low, "high": growth.high}


def _bound_document(found: Forecast, growth: Growth, bound: int) -> dict[str, Any]:
    hours = growth.hours_to(bound, growth.per_hour)
    assert found.until is not None
    return {
        "bytes": bound,
        "hours": hours,
        "earliest_hours": growth.hours_to(bound, growth.high),
        "latest_hours": growth.hours_to(bound, growth.low),
        "at": None if hours is None else found.until + timedelta(hours=hours),
        "times_recorded": None if hours is None else hours / found.hours,
    }


def show(found: Forecast, bound: int | None) -> None:
    """Prints the forecast for people."""
    if found.too_little is not None:
        print(f"no forecast: {found.too_little}")
        return
    title = f"growth over {formatting.span(found.hours * 3600)}"
    rows = [
        _line("rows", found.rows, lambda number: f"{number:,.0f}"),
        _line("bytes in RocksDB", found.bytes, formatting.size),
    ]
    columns = ("now", "per hour", "per day", "range per day")
    output.table((title, *columns), [row for row in rows if row is not None], right=columns)
    if bound is not None and found.bytes is not None:
        print(_sentence(_bound_document(found, found.bytes, bound)))


def _line(name: str, growth: Growth | None, shown: Any) -> tuple[str, ...] | None:
    if growth is None:
        return None

    def with_sign(number: float) -> str:
        return f"{'-' if number < 0 else '+'}{shown(abs(number))}"

    span = f"{with_sign(growth.low * 24)} to {with_sign(growth.high * 24)}"
    return (name, shown(growth.now), with_sign(growth.per_hour), with_sign(growth.per_hour * 24), span)


def _sentence(found: dict[str, Any]) -> str:
    bound = formatting.size(found["bytes"])
    if found["hours"] is None:
        return f"{bound}: not reached within ten years at this growth"
    if found["hours"] == 0:
        return f"{bound}: reached already"
    ends = [found["earliest_hours"], found["latest_hours"]]
    first, last = ("never" if one is None else formatting.span(one * 3600) for one in ends)
    time = formatting.span(found["hours"] * 3600)
    text = f"{bound}: in {time}, {formatting.moment(found['at'])} ({first} to {last})"
    if found["times_recorded"] > 10:
        text += f"; a guess, {found['times_recorded']:,.0f} times as far ahead as sizes are recorded"
    return text
