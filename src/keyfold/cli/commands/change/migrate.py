"""`keyfold migrate APP.py`: makes the state on disk fit a changed definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.home.removal_dialog import Why
from keyfold.cli.options import AppFile, Home, Json

if TYPE_CHECKING:
    from keyfold.cli.app.plan import AppPlan
    from keyfold.engine.migration.migrate import Migrated


def command(
    app: AppFile,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="TABLE", help="Only this table; may be repeated.", show_default=False
        ),
    ] = None,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Migrate the state of changed tables, as keyfold plan lists it.

    The app must be stopped. New states are written beside the old ones and compared; then a savepoint is
    made, and all tables are switched at once. If anything fails before that, nothing is changed. To undo it,
    restore the savepoint, and go back to the old definition.

    Example: keyfold migrate shop.py --why "customers by region"
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import load
    from keyfold.cli.app.plan import a_line_each, fill_advice, plan_app
    from keyfold.engine.migration.migrate import migrate

    with output.only_results(), plan_app(load(app), home, stopped=True) as found:
        tables = _choose_tables(found, table or [])
        for one in tables:
            output.say(f"{one.change.table}: {'; '.join(one.change.effects)}")
        for line in fill_advice(app, [one.change for one in tables]):
            output.say(line)
        entry = migrate(found.spark, found.home, tables, why, output.say, found.rebuild) if tables else None
    if json:
        output.json_document({"app": found.spec.name, "migrated": entry is not None, **(entry or {})})
    elif entry is None:
        print("nothing to migrate")
    else:
        done = entry["effects"].items()
        rows = (row for name, did in done for row in a_line_each((name,), did))
        output.table(("table", "migrated"), rows, wrapped="migrated")
        print(f"to undo it: keyfold savepoint restore {entry['undo']}, and the old definition")


def _choose_tables(found: AppPlan, wanted: list[str]) -> list[Migrated]:
    """The tables to migrate: those that can be, unless another one that was asked for can't."""
    from keyfold.engine.migration.migrate import Migrated
    from keyfold.engine.savepoint.capture import choose_tables
    from keyfold.errors import StateMismatch

    names = choose_tables(found.spec.name, [one.spec.name for one in found.tables], wanted)
    changes = {one.table: one for one in found.changes if one.table in names}
    refused = [one for one in changes.values() if one.kind == "incompatible"]
    if refused:
        raise StateMismatch(
            f"the state of {', '.join(one.table for one in refused)} can't be migrated; nothing was changed",
            given="\n".join(f"{one.table}: {effect}" for one in refused for effect in one.effects),
            hint="--table NAME migrates other tables; keyfold plan says what to do with these",
        )
    compiled = {one.spec.name: one for one in found.tables}
    return [Migrated(compiled[name], one) for name, one in changes.items() if one.kind == "migratable"]
