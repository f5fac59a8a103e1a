"""Advice on a table: rows that are not folded, what is behind, what grows without a bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from keyfold.plan.table_keys import CLOSING
from keyfold.read.advice.facts import Advice, Facts, of_failure
from keyfold.read.explain.lineage import steps_of_tables
from keyfold.read.metrics import TableStatus
from keyfold.read.trends import TrendPoint

_BEHIND_SECONDS: Final = 10.0
_BEHIND_BATCHES: Final = 20
_ONE_PARTITION: Final = 0.8
_FEW_MESSAGES: Final = 1_000
_GROWTH_SHARE: Final = 0.01
_GROWTH_KEYS: Final = 1_000
_GROWTH_SECONDS: Final = 600.0


def of_table(facts: Facts, table: str, status: TableStatus) -> Iterator[Advice]:
    """Advice on one table."""
    app, name = facts.status, f"{facts.status.app}.{table}"
    for failure in app.failures:
        if failure.table == table:
            yield of_failure(failure, app.app)
    yield from _rejected(table, name, status)
    yield from _late(table, name, status)
    if status.dropped_partials:
        why = "Matches may be missing: narrow the pattern's conditions or within=, or raise its limit=."
        what = f"{table} has dropped {status.dropped_partials:,} partial matches beyond its limit"
        yield Advice("warn", table, what, why, f"keyfold log show {name}")
    if app.running and status.running:
        yield from _behind(table, name, status)
        yield from _followers(facts, table, name)
    yield from _growing(facts, table, name)


def _rejected(table: str, name: str, status: TableStatus) -> Iterator[Advice]:
    show = f"keyfold side show rejected {name}"
    if status.all_rejected:
        reason = status.rejecting.reason if status.rejecting else "every row of this run"
        yield Advice("bad", table, f"{table} rejects every row", reason, show)
    elif status.rejecting is not None:
        one = status.rejecting
        what = f"{table} rejected {one.share:.0%} of batch {one.batch:,}"
        yield Advice("warn", table, what, f"{one.rejected:,} rows: {one.reason}", show)
    elif status.rejected:
        why = "They are not in the table; they are kept with their reasons, and can be folded once corrected."
        yield Advice("hint", table, f"{table} has rejected {status.rejected:,} rows", why, show)


def _late(table: str, name: str, status: TableStatus) -> Iterator[Advice]:
    if status.late:
        why = "They came after their windows had closed. A longer late= of the stream waits for such rows."
        what = f"{status.late:,} rows were too late for {table}"
        yield Advice("hint", table, what, why, f"keyfold side show late {name}")


def _behind(table: str, name: str, status: TableStatus) -> Iterator[Advice]:
    left, speed = status.messages_left or 0, status.rows_per_second or 0.0
    if left and (not speed or left / speed > _BEHIND_SECONDS):
        work = f"That is about {left / speed:,.0f} s of work at {speed:,.0f} rows/s." if speed else ""
        more = "More cores help if all are busy, more partitions of state if some are not."
        why = f"{work or 'No row is being read.'} {more}"
        what = f"{table} is behind by {left:,} messages"
        yield Advice("warn", table, what, why, f"keyfold state size {name} --partitions 8")
        yield from _one_partition(table, left, status.messages_left_by_partition)
    held = status.watermark_held_by
    if held is not None:
        why = f"It has brought no newer event time since {held.since:%H:%M:%S}, so that windows stay open."
        yield Advice("warn", table, f"{held.stream} {held.partition} holds the watermark of {table}", why)


def _one_partition(table: str, left: int, by_partition: Mapping[str, int]) -> Iterator[Advice]:
    if len(by_partition) < 2 or left < _FEW_MESSAGES:
        return
    partition, most = max(by_partition.items(), key=lambda one: one[1])
    if most > _ONE_PARTITION * left:
        why = "One task reads it while others wait. Its producer may send most messages with one key."
        yield Advice("warn", table, f"{most / left:.0%} of what {table} has to read is in {partition}", why)


def _followers(facts: Facts, table: str, name: str) -> Iterator[Advice]:
    batch = facts.status.tables[table].batch
    for one in facts.followers.get(table, ()):
        behind = (batch or 0) - one.batch
        if batch is not None and behind > _BEHIND_BATCHES:
            why = f"It has batch {one.batch:,} of {batch:,}; the log keeps all changes for it until then."
            yield Advice(
                "warn", table, f"{one} is {behind:,} batches behind {table}", why, f"keyfold log show {name}"
            )


def _growing(facts: Facts, table: str, name: str) -> Iterator[Advice]:
    declared = facts.stored.declared_tables.get(table)
    if declared is None or _is_bounded(declared) or not _takes_ttl(declared):
        return
    points = [one for one in facts.trends.tables.get(table, ()) if one.keys is not None]
    growth = _growth(points)
    if growth is None:
        return
    per_hour, now = growth
    why = f"Nothing bounds its {now:,} keys: ttl= lets go of keys that no row has touched for a time."
    what = f"{table} grows by {per_hour:,.0f} keys an hour and has no ttl"
    yield Advice("hint", table, what, why, f"keyfold state size {name} --bound 10GB")


def _is_bounded(declared: Mapping[str, Any]) -> bool:
    """Whether something lets go of the table's state; of a pattern it is within=."""
    window = declared.get("window") or {}
    return bool(declared.get("ttl") or declared.get("pattern") or window.get("kind") in CLOSING)


def _takes_ttl(declared: Mapping[str, Any]) -> bool:
    """Whether the table can have ttl=: no processor has it, nor a table of rows that may be retracted."""
    if declared.get("process"):
        return False
    steps = [next(iter(step.items())) for step in steps_of_tables(declared.get("input") or ())]
    return not any(
        value.get("on_update") if what == "enrich" else not value.get("previous") for what, value in steps
    )


def _growth(points: Sequence[TrendPoint]) -> tuple[float, int] | None:
    """How many keys an hour a table has gained, and how many it has; None if that is little."""
    if len(points) < 2:
        return None
    first, last = points[0], points[-1]
    seconds = (last.at - first.at).total_seconds()
    gained = (last.keys or 0) - (first.keys or 0)
    per_hour = gained * 3600 / seconds if seconds >= _GROWTH_SECONDS else 0.0
    return (
        (per_hour, last.keys or 0) if per_hour > max(_GROWTH_KEYS, _GROWTH_SHARE * (last.keys or 0)) else None
    )
