"""`keyfold rebuild APP.py TABLE...`: rebuilds tables from their rows, or views from logs and state."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.home.removal_dialog import Why
from keyfold.cli.options import AppFile, Home, Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keyfold.cli.app.loader import Loaded
    from keyfold.engine.compile.compiled import Compiled
    from keyfold.engine.rebuild.plan import Origin
    from keyfold.engine.storage.layout import AppHome
    from keyfold.plan.nodes import AppSpec


class From(StrEnum):
    """Where the rows of a rebuilt table come from."""

    RECORDED = "recorded"
    SOURCE = "source"


def command(
    app: AppFile,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Tables; with --view all by default.", show_default=False),
    ] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Only the views, from what logs and state have.")
    ] = False,
    origin: Annotated[
        From | None,
        typer.Option(
            "--from",
            metavar="recorded|source",
            help="Read rows from logs or from sources. Default: a log that has all rows or keeps history.",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Rebuild even if past rows are gone; their contribution is lost."),
    ] = False,
    with_readers: Annotated[
        bool,
        typer.Option(
            "--with-readers", help="Also rebuild the tables that read them, directly or through others."
        ),
    ] = False,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Rebuild tables from the rows of their streams.

    The app must be stopped; tables can be read all the time. The new table takes the place of the old one
    when it has read all rows, after a savepoint. If it fails or is killed before, nothing is changed. Tables
    that read it contain its rows, and must be rebuilt with it. With --view state stays as it is, and only the
    views are made again.

    Example: keyfold rebuild shop.py totals --why "two days were read with a wrong rate"
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import load
    from keyfold.errors import BadOption

    if not view and not tables:
        raise BadOption("rebuild needs the names of tables", given=app, hint="keyfold rebuild APP.py TABLE")
    if view and (origin is not None or partial or with_readers):
        raise BadOption(
            "--view reads logs and state, and no rows of streams",
            hint="leave --from, --partial and --with-readers out",
        )
    with output.only_results():
        loaded = load(app)
        if view:
            entry = _views(loaded, tables or [], why, home)
        else:
            entry = _tables(loaded, tables or [], with_readers, origin, partial, why, home)
    if json:
        output.json_document({"app": loaded.app.name, **entry})
        return
    keys = entry["keys"].items()
    output.table(("table", "rows"), ((name, f"{count:,}") for name, count in keys), right=("rows",))
    if not view:
        print(f"to undo it: keyfold savepoint restore {entry['undo']}")


def _tables(
    loaded: Loaded,
    wanted: list[str],
    with_readers: bool,
    origin: From | None,
    partial: bool,
    why: str | None,
    home: str | None,
) -> dict[str, Any]:
    from keyfold.cli import output
    from keyfold.cli.app.plan import plan_app
    from keyfold.engine.migration.migrate import migrate
    from keyfold.engine.rebuild import groups
    from keyfold.engine.rebuild.plan import plan_rebuild
    from keyfold.engine.savepoint.capture import choose_tables

    with plan_app(loaded, home, stopped=True, runs=True) as found:
        names = choose_tables(found.spec.name, [one.spec.name for one in found.tables], wanted)
        if with_readers:
            names = groups.with_readers(found.spec, found.stored, found.home, names)
        some = [one for one in found.tables if one.spec.name in names]
        asked: Origin | None = None if origin is None else origin.value
        rebuilt = plan_rebuild(found.spec, found.stored, some, found.home, origin=asked, partial=partial)
        for one in rebuilt:
            output.say(f"{one.change.table}: {'; '.join(one.change.effects)}")
        return migrate(found.spark, found.home, rebuilt, why, output.say, found.rebuild, "rebuild")


def _views(loaded: Loaded, wanted: list[str], why: str | None, home: str | None) -> dict[str, Any]:
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from keyfold.cli import output
    from keyfold.cli.app.check import empty_feeds
    from keyfold.cli.app.loader import for_workers
    from keyfold.cli.home.app_home import open_app
    from keyfold.cli.home.savepoint_dialog import refuse_running
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.compile.table import compile_app
    from keyfold.engine.operations import unfinished
    from keyfold.engine.recovery import view_rebuild, view_rebuilding
    from keyfold.engine.savepoint.capture import choose_tables
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import AppHome

    for_workers(loaded)
    spec = loaded.app.spec()
    names = choose_tables(spec.name, [table.name for table in spec.tables], wanted)
    # Also of a home elsewhere, whose local files say whether the app runs on this host.
    refuse_running(AppHome(home_of(home).resolve() / spec.name))
    with (
        open_app(spec.name, home) as app_home,
        own_spark(home, app_home) as spark,
        unfinished.held(app_home),
    ):
        with TemporaryDirectory(prefix="keyfold-rebuild-") as directory:
            compiled = compile_app(spark, spec, empty_feeds(spec, Path(directory)), app_home)
        with app_home.views.open(read_only=False) as store:
            possible = _possible(spec, app_home, compiled, names, strict=bool(wanted))
            batches = {one.spec.name: batch for one, batch in possible}
            with view_rebuilding.audit_rebuild(app_home, store, "rebuild", why, batches) as entry:
                for one, batch in possible:
                    output.say(f"rebuilding the view of {one.name}")
                    view_rebuild.rebuild(spark, store, one, app_home, batch)
    return entry


def _possible(
    spec: AppSpec, home: AppHome, tables: list[Compiled], names: Sequence[str], *, strict: bool
) -> list[tuple[Compiled, int]]:
    """The tables whose views can be rebuilt, with their batches, all checked before any is.

    `strict`: refuses the others.
    """
    from keyfold.cli import output
    from keyfold.engine.recovery import definition_check, view_rebuild
    from keyfold.errors import BadOption

    found = []
    for one in (one for one in tables if one.spec.name in names):
        definition_check.check(spec, home.read_plan(), one, home)
        batch = home.table(one.spec.name).committed_batch()
        if batch is None:
            output.say(f"{one.name} has no state yet: its view stays as it is")
        elif view_rebuild.can_rebuild(one, home, batch):
            found.append((one, batch))
        elif not strict:
            output.say(f"{one.name} has rows that are not in its state: its view stays as it is")
        else:
            raise BadOption(
                f"the view of {one.name} can't be rebuilt; nothing was changed",
                given="its state does not have its rows, and its log no longer has all changes",
                hint=f"keyfold rebuild APP.py {one.spec.name} computes the table again from its events",
            )
    return found
