"""`keyfold rescale TABLE N`: another number of partitions for a table's state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from keyfold.cli.home.removal_dialog import Why
from keyfold.cli.options import Home, Json, TableName

if TYPE_CHECKING:
    from keyfold.engine.state.size import Spread


def command(
    name: TableName,
    partitions: Annotated[
        int | None,
        typer.Argument(metavar="N", min=1, help="The new number of partitions.", show_default=False),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Change nothing: show what other numbers would give.")
    ] = False,
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores",
            metavar="N",
            min=1,
            help="For --plan. Default: those of this machine.",
            show_default=False,
        ),
    ] = None,
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Change the number of partitions of a table's state.

    With more partitions, more cores can work on a table. The app must be stopped. The new state is compared
    with the old one, key by key, before it replaces it; if anything differs, nothing is changed. Declare the
    same number afterwards, or leave partitions= out. With --plan the app may run.

    Example: keyfold rescale shop.totals 8 --why "more cores"
    """
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import find_table
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.engine.rescale.rescale import require_possible, require_state, rescale
    from keyfold.engine.state import size as state_size
    from keyfold.errors import BadOption

    if partitions is None and not plan:
        raise BadOption("the new number of partitions is missing", given=name, hint="8; or --plan")
    with find_table(name, home) as (app_home, table):
        shown = f"{app_home.path.name}.{table}"
        if plan:
            now, batch = require_state(app_home, table)
            used = cores or os.cpu_count() or 1
            numbers = sorted({now, partitions or now, *_powers(4 * max(used, 4))})
            with own_spark(home) as spark:
                checkpoint = app_home.table(table).storage.below("checkpoint")
                spreads = state_size.spreads(spark, checkpoint, batch, numbers)
            _show_plan(shown, now, used, spreads, json)
            return
        assert partitions is not None
        require_possible(app_home, table, partitions)
        with own_spark(home, stopped=app_home) as spark:
            entry = rescale(spark, app_home, table, partitions, why, output.say)
    if json:
        output.json_document({"app": app_home.path.name, **entry})
        return
    before, after = entry["partitions"]
    print(f"{shown}: {after} partitions, {before} before; {entry['rows']:,} rows compared")


def _powers(most: int) -> list[int]:
    """2, 4, 8, ... up to a number.

    >>> _powers(16)
    [2, 4, 8, 16]
    """
    return [2**power for power in range(1, most.bit_length()) if 2**power <= most]


def _show_plan(name: str, now: int, cores: int, spreads: list[Spread], json: bool) -> None:
    from keyfold.cli import formatting, output

    today = next(one.on_cores(cores) for one in spreads if one.partitions == now) or 1
    ratios = {one.partitions: one.on_cores(cores) / today for one in spreads}
    if json:
        found = [
            {
                "partitions": one.partitions,
                "bytes": list(one.sizes),
                "skew": one.skew,
                "time": ratios[one.partitions],
            }
            for one in spreads
        ]
        output.json_document({"table": name, "now": now, "cores": cores, "plan": found})
        return
    rows = (
        (
            f"{one.partitions} (now)" if one.partitions == now else one.partitions,
            formatting.size(one.largest_bytes),
            formatting.size(round(one.mean_bytes)),
            f"{one.skew:.2f}",
            f"{ratios[one.partitions]:.2f}",
        )
        for one in spreads
    )
    columns = ("partitions", "largest", "mean", "skew", "time")
    output.table(columns, rows, right=columns[1:])
    output.say(f"time: what a batch spends on state, on {cores} cores, in terms of now")
