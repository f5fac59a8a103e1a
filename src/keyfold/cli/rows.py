"""`keyfold rows NAME`: the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.options import AtLeast, Home, Json, TableName, Wait, bound

if TYPE_CHECKING:
    from keyfold.views.contract import ViewSchema


def command(
    name: TableName,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="As in \"revenue > 100 and region = 'eu'\".")
    ] = None,
    order_by: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help='As in "revenue desc, region"; else by key.')
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="At most so many rows; all without it.")
    ] = None,
    home: Home = None,
    at_least: AtLeast = None,
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Print the rows of a table.

    Example: keyfold rows shop.region_totals --where "orders > 10" --order-by "revenue desc" --limit 5
    """
    from keyfold.cli import output
    from keyfold.cli.reading import opened

    with opened(name, home) as (store, table):
        if (batch := bound(at_least, wait)) is not None:
            # Reads nothing but waits; the rows themselves are then taken one by one, however many there are.
            table.rows(limit=0, at_least=batch, wait=wait)
        one_more = None if limit is None or json else limit + 1
        rows = store.scan(table.table, where, order_by, limit if json else one_more)
        if json:
            output.json_array(rows)
            return
        schema = table.schema
        names = [column.name for column in schema.all]
        shown = (list(row.values()) for row in _counted(rows, limit))
        output.table(names, shown, right=_numbers(schema))
        if next(rows, None) is not None:
            output.say(f"{limit:,} rows shown, and there are more; leave out --limit for all")


def _counted(rows: Iterator[dict[str, Any]], limit: int | None) -> Iterator[dict[str, Any]]:
    return rows if limit is None else islice(rows, limit)


def _numbers(schema: ViewSchema) -> list[str]:
    from keyfold.views.numbers import Exact, Integer
    from keyfold.views.scalars import Floating

    return [c.name for c in schema.all if isinstance(c.type, Integer | Floating | Exact)]
