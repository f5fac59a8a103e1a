"""`keyfold plan APP.py`: what a changed definition means for the state on disk, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.options import AppFile, Home, Json

if TYPE_CHECKING:
    from keyfold.engine.recovery.definition_changes import TableChange
    from keyfold.plan.nodes import TableSpec


def command(
    app: AppFile,
    shadow: Annotated[
        int | None,
        typer.Option(
            "--shadow",
            metavar="N",
            min=1,
            help="Run the last N recorded batches under this code, on a copy, and show which rows differ.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="With --shadow: this table, also if it has not changed; may be repeated.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=0, help="With --shadow: at most this many differing rows."),
    ] = 20,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show what a changed app means for the state of its tables.

    For each table: same; compatible, if the change takes effect at the next start; migratable, if keyfold
    migrate can convert the state; or incompatible, with the reason. Starts Spark if the app has changed, but
    runs no table and writes nothing to the home. Exits with 1 if a table has to be migrated, renamed or reset
    before the app can start.

    --shadow N also runs the last N recorded batches of changed tables under the new code, in a temporary
    directory, and shows which rows come out differently. The app may be running meanwhile.

    Example: keyfold plan shop.py --shadow 20
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import load
    from keyfold.cli.app.plan import a_line_each, fill_advice, plan_app
    from keyfold.cli.reports.shadow_report import as_json, report, run
    from keyfold.errors import BadOption

    if table and shadow is None:
        raise BadOption("--table is an option of --shadow", given=" ".join(table), hint="--shadow 20")
    with output.only_results(), plan_app(load(app), home, runs=shadow is not None) as found:
        name, app_home, changes = found.spec.name, found.home.shown, found.changes
        shadows = None if shadow is None else run(found, shadow, table or [], limit)
    if json:
        tables = [document(change) for change in changes]
        compared = {} if shadows is None else {"shadow": as_json(shadows)}
        ok = not _in_the_way(changes)
        output.json_document({"app": name, "home": app_home, "ok": ok, "tables": tables, **compared})
    else:
        recorded = [one.name for one in found.spec.tables if recorded_inputs(one)]
        rows = (row for one in changes for row in a_line_each((one.table, one.kind), one.effects))
        output.table(("table", "change", "what it means"), rows, wrapped="what it means")
        for line in [*_advice(app, name, changes, recorded), *fill_advice(app, changes)]:
            print(line)
        report(shadows)
    if _in_the_way(changes):
        raise typer.Exit(1)


def document(change: TableChange) -> dict[str, Any]:
    """A table's change for JSON."""
    added = [] if change.mapping is None else change.mapping.added
    return {
        "name": change.table,
        "change": change.kind,
        "was": change.was,
        "effects": list(change.effects),
        "begin_with_nothing": added,
        "recorded_since": change.recorded or change.rebuilt,
        "rebuilt_together": list(change.readers),
    }


def _in_the_way(changes: list[TableChange]) -> bool:
    return any(change.kind in ("migratable", "incompatible") for change in changes)


def recorded_inputs(table: TableSpec) -> bool:
    """Whether all rows that a table reads are of streams that keep their history."""
    from keyfold.plan import tree

    found = tree.sources(table.input)
    return bool(found) and not tree.reads(table.input) and all(one.history_ms for one in found)


def _advice(file: str, app: str, changes: list[TableChange], recorded: list[str]) -> list[str]:
    """What to do next, a line for each kind that there is. `recorded`: tables whose rows are recorded."""
    from keyfold.cli.app.plan import rebuild_advice

    found = []
    if any(change.kind == "migratable" for change in changes):
        found.append(f"keyfold migrate {file} makes a savepoint, then changes what is migratable")
    for change in changes:
        if change.kind == "incompatible" and change.recorded is not None:
            found.append(f"{change.table}: {rebuild_advice(file, change, 'follows the change with')}")
        if change.kind == "incompatible":
            known = change.table in recorded
            rows = "the rows that its streams have recorded" if known else "what its sources still have"
            found.append(
                f"{change.table}: go back to the old definition; or give it another name; or keyfold reset "
                f"{app}.{change.table}, which loses its state and begins with {rows}"
            )
        if change.kind == "removed":
            found.append(f"{change.table}: its state stays until keyfold drop {app}.{change.table}")
    return found
