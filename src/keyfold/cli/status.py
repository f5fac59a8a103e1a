"""`keyfold status [APP]`: how the apps in a home are, from any process, without a JVM."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.options import Home, Json, complete_app

if TYPE_CHECKING:
    from keyfold.engine.home import AppHome


def command(
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]",
            help="One app; else all in the home.",
            show_default=False,
            autocompletion=complete_app,
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show how the apps of a home are, and each table's figures.

    Rows and rows/s are those of the last run; batch, keys, late, rejected and removed rows are of all runs.

    Example: keyfold status shop
    """
    from keyfold.cli import output
    from keyfold.cli.reading import home_of

    found = [_status(place) for place in _chosen(home_of(home), app)]
    if json:
        output.json_array(found)
        return
    for status in found:
        _show(status)


def _chosen(home: Any, app: str | None) -> list[AppHome]:
    from keyfold.engine.home import AppHome, apps, find

    if app is not None:
        return [find(home, app, table=False)[0]]
    known = apps(home)
    # Says what to do when there is none.
    return [AppHome(home.resolve() / name) for name in known] if known else [find(home, "")[0]]


def _status(place: AppHome) -> dict[str, Any]:
    """What the app wrote last, with what can be seen of it now."""
    from keyfold.engine.lock import holder

    pid = holder(place)
    try:
        written = dict(json_.loads(place.status.read_text("utf-8")))
    except (OSError, ValueError):
        written = {"tables": {}}
    plan = place.read_plan() or {}
    tables = {name: written["tables"].get(name) or _left(place, name) for name in plan.get("tables", {})}
    was_running = any(table.get("running") for table in tables.values())
    return {
        "app": place.path.name,
        "home": str(place.path),
        "running": pid is not None,
        "pid": pid,
        "started": written.get("started"),
        "seen": written.get("at"),
        "ended": None if pid is not None else "killed" if was_running else "stopped",
        "lookups": written.get("lookups", {}),
        "tables": {
            name: {**table, "running": pid is not None and bool(table.get("running"))}
            for name, table in tables.items()
        },
    }


def _left(place: AppHome, table: str) -> dict[str, Any]:
    """What a table that no run has spoken of left in its view, such as one that the app no longer has."""
    from keyfold.errors import QueryError
    from keyfold.views.reader import open_store

    try:
        store = open_store(place.views, read_only=True)
        try:
            position = store.position(table)
            return {"batch": position.batch if position else None, "keys": store.count(table)}
        finally:
            store.close()
    except QueryError:
        return {}


def _show(status: dict[str, Any]) -> None:
    from keyfold.cli import figures, lines, output

    started, seen = figures.moment(status["started"]), figures.moment(status["seen"])
    words = {
        None: f"runs, pid {status['pid']}, since {started}",
        "stopped": f"does not run; stopped at {seen}",
        "killed": f"does not run; it was killed, last seen at {seen}, and goes on with the next start",
    }
    print(f"{status['app']} {words[status['ended']]}; {status['home']}")
    rows = [figures.status_row(f"{status['app']}.{name}", table) for name, table in status["tables"].items()]
    if not status["running"]:
        rows = [{**row, "rows/s": figures.NONE} for row in rows]
    if rows:
        columns = tuple(dict.fromkeys(column for row in rows for column in row))
        cells = ([row.get(column, "0") for column in columns] for row in rows)
        output.table(columns, cells, right=columns[1:])
    for name, table in status["tables"].items():
        if table.get("rejecting"):
            print(lines.rejecting(f"{status['app']}.{name}", table["rejecting"]))
    for name, lookup in status["lookups"].items():
        print(_lookup_line(name, lookup))


def _lookup_line(name: str, lookup: dict[str, Any]) -> str:
    from keyfold.cli import figures

    rows = f"{figures.count(lookup['rows'])} row{'' if lookup['rows'] == 1 else 's'}"
    line = f"lookup {name}: {rows}, version {lookup['version']}, loaded {figures.moment(lookup['loaded'])}"
    return line if lookup["error"] is None else f"{line}; a newer one is not used: {lookup['error']}"
