"""`keyfold verify APP.py`: whether views are what state and logs say, and a repair if they are not."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.home.removal_dialog import Why
from keyfold.cli.options import AppFile, Home, Json

if TYPE_CHECKING:
    from keyfold.engine.recovery.verification import Verified
    from keyfold.plan.nodes import AppSpec


def command(
    app: AppFile,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Tables. Default: all of the app.", show_default=False),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild views that differ, from the log and the state.")
    ] = False,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Compare the views with the state and the log, row by row.

    The app must be stopped. A log that does not have all changes of its table is left out, and so is the
    state of patterns and processors; without that log, closed windows can't be compared, and are counted.
    Exits with 1 if a view differs, and names the keys; or if one could not be compared with either, and says
    what to do. The audit log has a line for a repair.

    Example: keyfold verify shop.py --repair
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import for_workers, load

    with output.only_results():
        loaded = load(app)
        for_workers(loaded)
        found, repaired = _verify(loaded.app.spec(), tables or [], repair, why, home)
    if json:
        output.json_document({"app": loaded.app.name, "tables": [_document(one, repaired) for one in found]})
    else:
        columns = ("table", "batch", "rows", "state", "log")
        output.table(columns, (_cells(one) for one in found), right=("batch", "rows"))
        for one in found:
            _show(one, one.table in repaired)
    if any(not one.compared or (not one.equal and one.table not in repaired) for one in found):
        raise typer.Exit(1)


def _verify(
    spec: AppSpec, tables: list[str], repair: bool, why: str | None, home: str | None
) -> tuple[list[Verified], set[str]]:
    from keyfold.cli.app.check import empty_feeds
    from keyfold.cli.home.app_home import open_app
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.compile.table import compile_app
    from keyfold.engine.operations import unfinished
    from keyfold.engine.recovery import definition_check, verification, view_rebuild, view_rebuilding
    from keyfold.engine.savepoint.capture import choose_tables

    wanted = choose_tables(spec.name, [table.name for table in spec.tables], tables)
    with (
        open_app(spec.name, home) as app_home,
        own_spark(home, stopped=app_home) as spark,
        unfinished.held(app_home),
        app_home.views.open(read_only=False) as view,
    ):
        with TemporaryDirectory(prefix="keyfold-verify-") as directory:
            feeds = empty_feeds(spec, Path(directory))
            compiled = [c for c in compile_app(spark, spec, feeds, app_home) if c.spec.name in wanted]
        for one in compiled:
            definition_check.check(spec, app_home.read_plan(), one, app_home)
        found = [verification.verify(spark, one, app_home, view) for one in compiled]
        wrong = {one.table: one.batch for one in found if repair and not one.equal and one.batch is not None}
        if wrong:
            with view_rebuilding.audit_rebuild(app_home, view, "verify --repair", why, wrong):
                for one in compiled:
                    if one.spec.name in wrong:
                        view_rebuild.rebuild(spark, view, one, app_home, wrong[one.spec.name])
        return found, set(wrong)


def _document(found: Verified, repaired: set[str]) -> dict[str, Any]:
    from keyfold.engine.recovery.verification import NotCompared

    def side(differences: Any) -> Any:
        if isinstance(differences, NotCompared):
            return {"compared": False, "why": differences.why, "hint": differences.hint}
        shown = [{"key": one.key, "problem": one.problem} for one in differences]
        return {"compared": True, "equal": not differences, "differences": shown}

    return {
        "table": found.table,
        "batch": found.batch,
        "rows": found.rows,
        "compared": found.compared,
        "equal": found.equal,
        "closed_not_compared": found.closed,
        "repaired": found.table in repaired,
        "state": side(found.state),
        "log": side(found.log),
    }


def _cells(found: Verified) -> tuple[Any, ...]:
    words = [
        "differs" if d and isinstance(d, list) else "equal" if isinstance(d, list) else "not compared"
        for d in (found.state, found.log)
    ]
    if found.closed:
        words[0] += f"; {found.closed:,} of closed windows not compared"
    return (found.table, found.batch, found.rows, *words)


def _show(found: Verified, repaired: bool) -> None:
    from keyfold.cli import output

    for side, differences in (("state", found.state), ("log", found.log)):
        if not isinstance(differences, list):
            closed = (
                f"; its {found.closed:,} rows of closed windows have no other record" if found.closed else ""
            )
            hint = f"; {differences.hint}" if closed or not found.compared else ""
            output.say(f"{found.table}: not compared with its {side}: {differences.why}{closed}{hint}")
            continue
        for one in differences:
            key = ", ".join(f"{name}={value!r}" for name, value in one.key.items())
            output.say(f"{found.table}: row {key} {one.problem}, according to the {side}")
    if repaired:
        output.say(f"{found.table}: the view was rebuilt")
