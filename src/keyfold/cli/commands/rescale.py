"""`keyfold rescale TABLE N`: another number of partitions for a table's state."""

from __future__ import annotations

from typing import Annotated

import typer

from keyfold.cli.options import Home, Json, TableName
from keyfold.cli.removal_dialog import Why


def command(
    name: TableName,
    partitions: Annotated[
        int, typer.Argument(metavar="N", min=1, help="The new number of partitions.", show_default=False)
    ],
    why: Why = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Change the number of partitions of a table's state, so that more cores can share it.

    The app must be stopped. The new state is written beside the old one and compared with it, every key,
    before it takes its place; if anything differs, nothing is changed. Declare the same number afterwards, or
    leave partitions= out.

    Example: keyfold rescale shop.totals 8 --why "more cores"
    """
    from keyfold.cli import output
    from keyfold.cli.removal_dialog import found
    from keyfold.cli.spark_session import own_spark
    from keyfold.engine.savepoint.rescale import require_possible, rescale

    with found(name, home) as (place, table):
        require_possible(place, table, partitions)
        with own_spark(home) as spark:
            entry = rescale(spark, place, table, partitions, why, output.say)
    if json:
        output.json_document({"app": place.path.name, **entry})
        return
    before, after = entry["partitions"]
    print(f"{place.path.name}.{table}: {after} partitions, {before} before; {entry['rows']:,} rows compared")
