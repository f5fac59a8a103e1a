"""The positions of an app's sinks, each stored under its sink's name.

Earlier versions numbered the sinks of a table in the order of their declaration. To which sink a number
belongs follows from the declaration of the last start in `app.json`, whatever the app declares now; so
positions get names before that declaration is replaced. A sink that is no longer declared keeps its position,
but the log does not wait for it: if it is declared again after batches that it has not written were removed,
the start is refused.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import StateMismatch
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.call_site import location
from keyfold.plan.describe.as_json import connector_dict
from keyfold.plan.nodes import AppSpec, TableSpec
from keyfold.plan.validate.sinks import default_name
from keyfold.read.positions import by_position_name, sink_position

Described: TypeAlias = Mapping[str, Any]
"""A sink as described by `connector_dict`, which is its form in `app.json`."""

_Sinks: TypeAlias = Sequence[tuple[str, Described]]

_LOG: Final = logging.getLogger("keyfold")


def prepare(spec: AppSpec, stored: StoredApp, home: AppHome) -> None:
    """Names positions, and refuses sinks that have missed batches; before the new plan is recorded."""
    declared = {table.name: table for table in spec.tables}
    # Including tables that are left out: once the new plan is recorded, their sinks can't be identified.
    for name in dict.fromkeys([*_recorded_tables(stored), *declared]):
        _take_over(f"{spec.name}.{name}", stored, declared.get(name), home.table(name))
    for table in spec.tables:
        for name, _ in table.sinks:
            _refuse_gap(table, name, home.table(table.name))
        _warn_of_removed(table, stored, home.table(table.name))


def _recorded_tables(stored: StoredApp) -> dict[str, Sequence[Described]]:
    """The sinks of the tables that the last start declared."""
    return {name: table.get("sinks", ()) for name, table in stored.declared_tables.items()}


def _take_over(full_name: str, stored: StoredApp, table: TableSpec | None, home: TableHome) -> None:
    """Moves positions from numbers to names.

    If this is interrupted, the next start does it again; no position is written meanwhile. Numbers are
    removed from the highest position to the lowest.
    """
    now = [(name, connector_dict(sink)) for name, sink in (() if table is None else table.sinks)]
    old = _number_sinks(full_name, _recorded_tables(stored).get(home.path.name), now, home)
    at = {number: sink_position(home, number) or 0 for number, _ in old}
    owners = _owners(old, now)
    uses = Counter(number for numbers in owners.values() for number in numbers)
    for name, numbers in owners.items():
        lowest = min(numbers, key=at.__getitem__)
        content = home.sink(lowest).read_bytes()
        if len(numbers) > 1 or uses[lowest] > 1:
            _LOG.warning(
                "%s: app.json does not tell which of the positions %s is that of sink %s: it resumes after "
                "batch %d, and may write batches again",
                full_name,
                ", ".join(numbers),
                name,
                at[lowest],
            )
            # Without the identity of a producer, which only one sink can have.
            content = json.dumps({"batch": at[lowest]}).encode()
        home.sink(name).put(content)
    for number in sorted(uses, key=at.__getitem__, reverse=True):
        home.sink(number).delete()
        reached(FaultPoint.SINK_NUMBER_REMOVED, table=full_name, number=number)


def _number_sinks(
    full_name: str, recorded: Sequence[Described] | None, now: _Sinks, home: TableHome
) -> _Sinks:
    """The sinks with numbered positions; in their present order if the last start did not declare any."""
    sinks = by_position_name([sink for _, sink in now] if recorded is None else recorded)
    if all("name" in sink for _, sink in sinks):
        return []
    files = set(home.storage.list("sinks"))
    found = [(number, sink) for number, sink in sinks if "name" not in sink and f"{number}.json" in files]
    if found and recorded is None:
        _LOG.warning(
            "%s: app.json does not say to which sinks positions %s belong: they are assigned in order",
            full_name,
            ", ".join(number for number, _ in found),
        )
    return found


def _owners(old: _Sinks, now: _Sinks) -> dict[str, list[str]]:
    """The numbers of earlier sinks, by their present names.

    A sink is the one with the same description, otherwise the one with the same address. A sink that is no
    longer declared gets its default name.
    """
    same = {number: [name for name, sink in now if sink == was] for number, was in old}
    taken = {name for names in same.values() for name in names}
    found: dict[str, list[str]] = {}
    for number, was in old:
        default = default_name(was)
        alike = [name for name, sink in now if name not in taken and default_name(sink) == default]
        if default in alike or not (alike or default in {name.lower() for name, _ in now}):
            alike = [default]
        for name in same[number] or alike:
            found.setdefault(name, []).append(number)
    return found


def _refuse_gap(table: TableSpec, name: str, home: TableHome) -> None:
    """Refuses a sink that has missed batches while it was not declared."""
    at = sink_position(home, name)
    gone = None if at is None else _missing_batches(home, at)
    if gone is not None:
        full_name, (first, last) = f"{table.app}.{table.name}", gone
        raise StateMismatch(
            f"sink {name} of {full_name} was not declared for some time, and has missed batches {first} to "
            f"{last}: what they changed is gone from the log",
            where=location(full_name, table.site),
            given=f"sink {name} at batch {at}",
            hint='another name, .to(..., name="..."), with which it begins after the newest batch; or '
            f"`keyfold reset {full_name}`, after which it gets all changes again",
        )


def _missing_batches(home: TableHome, at: int) -> tuple[int, int] | None:
    """The first and the last batch after one whose changes the log no longer has, or never had.

    While a log has no readers, changes are only counted. An uncommitted batch runs again.
    """
    log = TableLog(home.log_files)
    upto, committed = totals(log).upto, home.committed_batch()
    if upto > at:
        return at + 1, upto
    done = -1 if committed is None else committed
    counted = [m.batch for m in log.after(at) if m.batch <= done and not m.has_its_changes]
    return (counted[0], counted[-1]) if counted else None


def _warn_of_removed(table: TableSpec, stored: StoredApp, home: TableHome) -> None:
    """Warns of sinks that are no longer declared and have not written all changes."""
    names = {name.lower() for name, _ in table.sinks}
    recorded = by_position_name(_recorded_tables(stored).get(table.name, ()))
    for name in (name for name, _ in recorded if name.lower() not in names):
        newest, at = TableLog(home.log_files).newest(), sink_position(home, name)
        if at is not None and newest is not None and at < newest:
            _LOG.warning(
                "%s.%s: sink %s is no longer declared, and has not written batches %d to %d; if declared "
                "under this name again, it resumes there as long as the log has them",
                table.app,
                table.name,
                name,
                at + 1,
                newest,
            )
