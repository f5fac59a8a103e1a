"""`keyfold plan --shadow`: which tables are run, and how the rows that differ are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from keyfold.cli import output

if TYPE_CHECKING:
    from keyfold.cli.app.plan import AppPlan
    from keyfold.engine.recovery.definition_changes import TableChange
    from keyfold.engine.shadow.run import Shadow


class Shadows:
    """The shadow runs of an app's tables, and why others were not run."""

    def __init__(self) -> None:
        self.done: list[Shadow] = []
        self.refused: dict[str, str] = {}


def run(found: AppPlan, number: int, tables: Sequence[str], limit: int) -> Shadows:
    """Runs the tables that were asked for, else those that have changed."""
    from keyfold.engine.log import shared_streams
    from keyfold.engine.shadow.beginning import refusal
    from keyfold.engine.shadow.run import shadow

    changes = _choose_tables(found, tables)
    shared = shared_streams.decide(found.spec, found.stored, found.home)
    compiled = {one.spec.name: one for one in found.tables}
    shadows = Shadows()
    for change in changes:
        why = refusal(compiled[change.table], shared)
        if why is not None:
            shadows.refused[change.table] = why
            continue
        shadows.done.append(
            shadow(
                found.spark,
                shared,
                found.home,
                found.stored,
                compiled[change.table],
                change,
                number,
                Path(mkdtemp(prefix="shadow-", dir=found.feeds.parent)),
                limit,
                partial(_say, f"{found.spec.name}.{change.table}"),
            )
        )
    _require_some(found.spec.name, shadows)
    return shadows


def _say(table: str, done: int, of: int) -> None:
    output.say(f"{table}: batch {done} of {of}")


def _choose_tables(found: AppPlan, tables: Sequence[str]) -> list[TableChange]:
    from keyfold.engine.savepoint.capture import choose_tables
    from keyfold.errors import BadOption

    if not found.stored.exists:
        raise BadOption(
            f"app {found.spec.name} has not run in this home, so nothing is recorded",
            given=found.home.shown,
            hint="keyfold run APP.py, or another home: --home DIR",
        )
    names = choose_tables(found.spec.name, [one.spec.name for one in found.tables], tables)
    changes = [one for one in found.changes if one.table in names and one.kind != "removed"]
    return changes if tables else [one for one in changes if one.kind != "same"]


def _require_some(app: str, shadows: Shadows) -> None:
    from keyfold.errors import BadOption

    if shadows.refused and not shadows.done:
        raise BadOption(
            f"no table of {app} can be run on recorded batches",
            given="\n".join(f"{table}: {why}" for table, why in shadows.refused.items()),
        )


def as_json(shadows: Shadows) -> list[dict[str, Any]]:
    """The runs for JSON."""
    done = [
        {
            "table": one.table,
            "batches": one.begin.batches,
            "begins_with_state_of": one.begin.state,
            "whole": one.begin.whole,
            "compared": one.rows.compared,
            **one.rows.counts,
            "rows": [asdict(row) for row in one.rows.rows],
            "more": sum(one.rows.counts.values()) > len(one.rows.rows),
            "side_outputs": asdict(one.side_outputs),
            "refused": None,
        }
        for one in shadows.done
    ]
    return [*done, *({"table": table, "refused": why} for table, why in shadows.refused.items())]


def report(shadows: Shadows | None) -> None:
    """Prints the runs for people."""
    if shadows is None:
        return
    for one in shadows.done:
        _report(one)
    for table, why in shadows.refused.items():
        print(f"{table}: not run: {why}")
    if not shadows.done and not shadows.refused:
        print("no table has changed, so none was run; --table TABLE runs one anyway")


def _report(one: Shadow) -> None:
    counts, shown = one.rows.counts, one.rows.rows
    differ = sum(counts.values())
    print(f"\n{one.table}: {_many(one.begin.batches, 'recorded batch', 'recorded batches')}, {_from(one)}")
    if not differ:
        print(f"no row differs, of {one.rows.compared:,} that these batches changed before or now")
    else:
        numbers = ", ".join(f"{number:,} {change}" for change, number in counts.items() if number)
        print(f"{numbers}, of {_many(one.rows.compared, 'row', 'rows')} that changed before or now")
    if shown:
        rows = ((r.change, *r.key.values(), _text(r.before), _text(r.after)) for r in shown)
        names = list(dict.fromkeys(tuple(r.key) for r in shown))
        if len(names) == 1:
            output.table(("change", *names[0], "before", "after"), rows)
        else:
            other = ((r.change, _text(r.key), _text(r.before), _text(r.after)) for r in shown)
            output.table(("change", "key", "before", "after"), other)
    if differ > len(shown):
        print(f"{differ - len(shown):,} more: --limit")
    _report_side_outputs(one)


def _from(one: Shadow) -> str:
    if one.begin.state is not None:
        return f"beginning with the state of batch {one.begin.state}"
    if one.begin.whole:
        return "beginning with nothing, as the table did"
    return "beginning with nothing: what was folded from earlier rows is missing"


def _report_side_outputs(one: Shadow) -> None:
    before, after = one.side_outputs.before, one.side_outputs.after
    for kind, number in after.items():
        if number or before[kind]:
            what = "dropped partial matches" if kind == "dropped_partial" else f"{kind} rows"
            print(f"{what}: {before[kind]:,} before, {number:,} now")
    for reason in one.side_outputs.reasons[:5]:
        print(f"  {reason.rows:,} now: {reason.example}")


def _many(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={output.cell(value)}" for name, value in values.items())
