"""Checks of windows: sizes, offsets and zones, and whether the stream supports them."""

from __future__ import annotations

import functools
import zoneinfo
from datetime import timedelta
from typing import Final, NoReturn

from keyfold.errors import BadOption, near
from keyfold.plan import durations
from keyfold.plan.nodes import Node, WindowSpec
from keyfold.plan.validate import arguments, event_time

_DAY: Final = durations.millis("1 day")
# Names that Python lists and Java refuses: they name no region, so their meaning is ambiguous.
_NOT_REGIONS: Final = frozenset({"EST", "Factory", "HST", "MST", "ROC", "localtime"})
# A limit far above any use: each window is a row when it closes.
_MOST_WINDOWS: Final = 100_000
_MOST_ROWS: Final = 2**31 - 1


def tumbling(size: object, offset: object, zone: object, where: object = None) -> WindowSpec:
    """Windows that follow each other without overlap."""
    size_ms = durations.millis(size, "size", where=where)
    checked = _zone(zone, {"size": size_ms}, where)
    return WindowSpec("tumbling", size_ms=size_ms, offset_ms=_offset(offset, size_ms, where), zone=checked)


def sliding(size: object, every: object, offset: object, zone: object, where: object = None) -> WindowSpec:
    """Windows that overlap."""
    arguments.require(every, "every", "sliding", 'sliding("1 hour", every="5 minutes")', where)
    size_ms = durations.millis(size, "size", where=where)
    every_ms = durations.millis(every, "every", where=where)
    if every_ms > size_ms:
        problem = "every must not be longer than size: rows between two windows would be in none"
        _refuse(problem, where, f"size={size!r}, every={every!r}", f"every={durations.text(size_ms)!r}")
    if size_ms > every_ms * _MOST_WINDOWS:
        problem = f"a row would be in {size_ms // every_ms:,} windows; the limit is {_MOST_WINDOWS:,}"
        least = durations.text(-(-size_ms // _MOST_WINDOWS))
        _refuse(problem, where, f"size={size!r}, every={every!r}", f"every of at least {least!r}")
    checked = _zone(zone, {"size": size_ms, "every": every_ms}, where)
    return WindowSpec("sliding", size_ms, every_ms, _offset(offset, every_ms, where), checked)


def session(gap: object, where: object = None) -> WindowSpec:
    """Windows that end when a key has no row for the gap: a duration, or an expression."""
    if _is_length(gap):
        return WindowSpec("session", size_ms=durations.millis(gap, "gap", where=where))
    return WindowSpec("session", gap=arguments.expression(gap, "the gap of session", where))


def rolling(duration: object, every: object, where: object = None) -> WindowSpec:
    """The rows of each key in a trailing window of event time."""
    size_ms = durations.millis(duration, "duration", where=where)
    if every is None:
        return WindowSpec("rolling", size_ms)
    every_ms = durations.millis(every, "every", where=where)
    if every_ms > size_ms:
        problem = "every must not be longer than duration: it is the width of the panes that are kept"
        given, longest = f"duration={duration!r}, every={every!r}", durations.text(size_ms)
        _refuse(problem, where, given, f"every of at most {longest!r}, or leave it out")
    return WindowSpec("rolling", size_ms, every_ms)


def last(n: object, where: object = None) -> WindowSpec:
    """The last n rows of each key."""
    rows = arguments.positive(n, "n of last", where)
    if rows > _MOST_ROWS:
        _refuse(f"n of last must be at most {_MOST_ROWS}", where, repr(n), "fewer rows, or rolling(...)")
    return WindowSpec("last", rows=rows)


def require_time(window: WindowSpec, node: Node, where: object = None) -> None:
    """Refuses windows by event time on a stream without it."""
    if window.kind != "last":
        event_time.require(node, window.kind, where)
    if window.kind in ("tumbling", "sliding", "session"):
        event_time.refuse_delayed_rows(node, window.kind, where)


def _is_length(gap: object) -> bool:
    """Whether a gap is meant as a duration. A number is; it is then refused since it has no unit."""
    if isinstance(gap, str):
        first = gap.strip()[:1]
        return not first or first.isdigit() or first in "+-"
    return gap is None or isinstance(gap, timedelta | int | float)


def _offset(offset: object, every_ms: int, where: object) -> int:
    """From zero to less than the distance of windows; other offsets give the same windows."""
    back, given = False, offset
    if isinstance(offset, str) and offset.strip().startswith("-"):
        back, given = True, offset.strip()[1:]
    elif isinstance(offset, timedelta) and offset < timedelta(0):
        back, given = True, -offset
    ms = durations.millis(given, "offset", zero=True, where=where)
    return (-ms if back else ms) % every_ms


def _zone(zone: object, lengths: dict[str, int], where: object) -> str | None:
    if zone is None:
        return None
    if not isinstance(zone, str) or zone not in _zones():
        problem = "zone must be the name of a time zone"
        _refuse(problem, where, f"zone={zone!r}", _zone_hint(str(zone)))
    for name, ms in lengths.items():
        if ms % _DAY:
            problem = f"{name} must be whole days with a zone, whose days may have 23 or 25 hours"
            given = f"{name}={durations.text(ms)!r}, zone={zone!r}"
            _refuse(problem, where, given, f"{name}='1 day', or leave zone out and move windows with offset=")
    return zone


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _NOT_REGIONS)


def _zone_hint(given: str) -> str:
    """The most similar zone, by its full name or by its city."""
    cities = {name.rpartition("/")[2]: name for name in sorted(_zones())}
    found = near(given, _zones(), cutoff=0.8) or cities.get(near(given, cities, cutoff=0.8) or "")
    # The letters of an abbreviation say nothing about the region: EST is most similar to Brazil/West.
    if found is None or (given.isupper() and len(given) < 5):
        return "a name such as 'Europe/Berlin'"
    return f"did you mean {found!r}?"


def _refuse(problem: str, where: object, given: str | None, hint: str) -> NoReturn:
    raise BadOption(problem, where=where, given=given, hint=hint)
