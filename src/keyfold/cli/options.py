"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer


def complete_app(incomplete: str) -> list[str]:
    """Apps of the home, for the shell."""
    from keyfold.cli.home_reader import home_of
    from keyfold.engine.storage.layout import apps

    return [name for name in apps(home_of(None)) if name.startswith(incomplete)]


def complete_table(incomplete: str) -> list[str]:
    """Tables of the home, as app.table, for the shell."""
    from keyfold.cli.home_reader import home_of
    from keyfold.engine.storage.layout import AppHome, apps

    home = home_of(None)
    plans = {app: AppHome(home / app).read_plan() or {} for app in apps(home)}
    names = [f"{app}.{table}" for app, plan in plans.items() for table in plan.get("tables", {})]
    return [name for name in names if name.startswith(incomplete)]


AppFile = Annotated[
    str,
    typer.Argument(metavar="APP.py", help="The app's file; APP.py:NAME if it has several apps."),
]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="app.table, or table where the home has one app.",
        autocompletion=complete_table,
    ),
]
Home = Annotated[
    str | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="Directory of all state; else KEYFOLD_HOME, else .keyfold.",
        show_default=False,
    ),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Stop so long after it is up, as in 20s.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AtLeast = Annotated[
    int | None,
    typer.Option("--at-least", metavar="BATCH", help="Answer only from this batch on.", show_default=False),
]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        help="How long to wait for that batch, such as 2s; for the first batch without --at-least.",
        show_default=False,
    ),
]


def bound(at_least: int | None, wait: str | None) -> int | None:
    """The batch to wait for: a wait alone is one for the first."""
    return 0 if at_least is None and wait is not None else at_least


def seconds_of(for_: str | None) -> float | None:
    """The length of `--for` in seconds."""
    from keyfold.plan import durations

    return None if for_ is None else durations.millis(for_, "--for") / 1000
