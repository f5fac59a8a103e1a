"""`keyfold rows NAME`: prints or exports the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from keyfold.cli.options import AtLeast, Home, Json, TableName, Wait, bound
from keyfold.errors import BadOption, choice, did_you_mean

if TYPE_CHECKING:
    from keyfold.views.contract import ViewSchema

_FORMATS: Final = ("table", "json", "csv", "parquet")


def command(
    name: TableName,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="Rows of this key: one option per part, in order; trailing parts may be left out.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Windows that end after this time, such as 2026-01-31 or 2026-01-31T13:30:00Z.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Windows that start before this time.", show_default=False
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="A filter, such as \"revenue > 100 and region = 'eu'\"."),
    ] = None,
    order_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help='The order, such as "revenue desc, region". Default: by key.'),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="At most N rows. Default: all.")
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="|".join(_FORMATS), help="Output format.", show_default=False)
    ] = "table",
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="File for csv or parquet. Default: stdout.")
    ] = None,
    home: Home = None,
    at_least: AtLeast = None,
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Print the rows of a table.

    Example: keyfold rows shop.region_totals --where "orders > 10" --order-by "revenue desc" --limit 5

    Example: keyfold rows shop.region_totals --format parquet --out totals.parquet

    Example: keyfold rows shop.per_minute --key eu --since 2026-01-01 --until 2026-01-02
    """
    from keyfold.cli import output
    from keyfold.cli.reports import export
    from keyfold.cli.terminal import log_lines
    from keyfold.read import open_home
    from keyfold.views import keys

    wanted = _format("json" if json and format == "table" else format, out, json)
    with open_home(home) as reader:
        app, part = reader.find(name)
        table = app.table(part)
        if (batch := bound(at_least, wait)) is not None:
            # Only waits; the rows themselves are then streamed.
            table.rows(limit=0, at_least=batch, wait=wait)
        # One more than the limit, to tell whether there are more.
        more = wanted == "table" and limit is not None
        parts = tuple(key or ())
        given = parts[0] if len(parts) == 1 else parts or None
        chosen = keys.narrow(table.schema, where, given, since, until, ("--since", "--until"))
        rows = app.views.scan(part, chosen, order_by, limit + 1 if more and limit is not None else limit)
        if wanted == "json":
            output.json_array(rows)
        elif wanted == "table":
            _show(rows, table.schema, limit, trend=len(parts) == len(keys.own_keys(table.schema)))
            log_lines.say_known_since(app, part)
        else:
            write = export.write_csv if wanted == "csv" else export.write_parquet
            number = write(rows, table.schema, out)
            if out:
                output.say(f"{number:,} row{'' if number == 1 else 's'} in {out}")


def _format(given: str, out: str | None, json: bool) -> str:
    if json and given != "json":
        raise BadOption("--json contradicts --format", given=f"--json --format {given}", hint="one of them")
    if given not in _FORMATS:
        hint = did_you_mean(given, _FORMATS, choice(_FORMATS))
        raise BadOption(f"unknown format {given!r}", given=f"--format {given}", hint=hint)
    if out is not None and given not in ("csv", "parquet"):
        hint = f"> {out}" if given == "json" else f"--format csv --out {out}"
        raise BadOption("--out needs --format csv or parquet", given=f"--out {out}", hint=hint)
    return given


def _show(rows: Iterator[dict[str, Any]], schema: ViewSchema, limit: int | None, trend: bool) -> None:
    """The rows as a table; below it, in a terminal, sparklines of one key's windows."""
    from keyfold.cli import output
    from keyfold.cli.terminal.sparklines import Trend
    from keyfold.views.keys import window_of

    drawn = Trend(schema) if trend and window_of(schema) and sys.stdout.isatty() else None
    shown: Iterator[Mapping[str, Any]] = rows if limit is None else islice(rows, limit)
    names = [column.name for column in schema.all]
    output.table(
        names,
        (list(row.values()) for row in (drawn.watch(shown) if drawn else shown)),
        right=[column.name for column in schema.all if column.numeric],
    )
    if drawn:
        screen = output.console()
        for line in drawn.lines(screen.width, screen.encoding):
            screen.print(line, no_wrap=True, overflow="crop")
    if next(rows, None) is not None:
        output.say(f"only the first {limit:,} rows; omit --limit for all")
