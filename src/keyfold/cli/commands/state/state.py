"""`keyfold state size TABLE`: how large a table's state is, its largest keys, and how partitions share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyfold.cli.options import Home, Json, TableName

if TYPE_CHECKING:
    from keyfold.engine.state.size import FamilySize, KeySize, Spread

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Look into the state of a table.

    Example: keyfold state size shop.totals
    """


@app.command()
def size(
    name: TableName,
    keys: Annotated[
        int, typer.Option("--keys", metavar="N", min=0, help="How many of the largest keys to show.")
    ] = 10,
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            help="Also show how N partitions would share the state; can be repeated.",
            show_default=False,
        ),
    ] = None,
    bound: Annotated[
        str | None,
        typer.Option(
            "--bound",
            metavar="SIZE",
            help="Say when the state reaches this size, such as 10GB, at the growth that is recorded.",
            show_default=False,
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show the size of a table's state, and how fast it grows.

    By column family and by partition, with the largest keys.

    Reads the whole state, as of the last committed batch, also while the app runs. Bytes are those of keys
    and values before compression. Growth is that of the rows of the table, and of the state in RocksDB, of
    which a running app records a sample a minute.

    Example: keyfold state size shop.totals --partitions 8 --bound 10GB
    """
    from keyfold.cli import output
    from keyfold.cli.home.removal_dialog import find_table
    from keyfold.cli.home.spark_session import own_spark
    from keyfold.cli.reports import size_forecast
    from keyfold.engine.state import size as state_size
    from keyfold.engine.status.size_forecast import forecast
    from keyfold.errors import QueryError
    from keyfold.read import trends

    most = None if bound is None else size_forecast.bytes_of(bound)
    with find_table(name, home) as (app_home, table):
        table_home = app_home.table(table)
        batch, now = table_home.committed_batch(), table_home.spark.partitions()
        if batch is None or now is None:
            raise QueryError(f"{app_home.path.name}.{table} has no state yet", reason="not_ready", given=name)
        checkpoint = table_home.storage.below("checkpoint")
        growth = forecast(trends.read(app_home).get(table, []))
        with own_spark(home) as spark:
            families = state_size.families(spark, checkpoint, batch)
            largest = state_size.largest_keys(spark, checkpoint, batch, keys) if keys else []
            spreads = state_size.spreads(spark, checkpoint, batch, sorted({now, *(partitions or [])}))
    if json:
        document = _document(app_home.path.name, table, batch, families, largest, spreads)
        output.json_document({**document, "forecast": size_forecast.as_json(growth, most)})
        return
    _show(families, largest, spreads, now)
    size_forecast.show(growth, most)


def _document(
    app: str,
    table: str,
    batch: int,
    families: list[FamilySize],
    largest: list[KeySize],
    spreads: list[Spread],
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "app": app,
        "table": table,
        "batch": batch,
        "families": [asdict(one) for one in families],
        "largest_keys": [asdict(one) for one in largest],
        "partitions": [{**asdict(one), "skew": one.skew} for one in spreads],
    }


def _show(families: list[FamilySize], largest: list[KeySize], spreads: list[Spread], now: int) -> None:
    from keyfold.cli import formatting, output

    rows: Any = ((o.operator, o.family, o.rows, formatting.size(o.bytes)) for o in families)
    output.table(("operator", "family", "rows", "size"), rows, right=("operator", "rows", "size"))
    if largest:
        rows = (
            (", ".join(f"{n}={v!r}" for n, v in o.key.items()), o.rows, formatting.size(o.bytes))
            for o in largest
        )
        output.table(("largest keys", "rows", "size"), rows, right=("rows", "size"))
    rows = (
        (
            f"{o.partitions} (now)" if o.partitions == now else o.partitions,
            formatting.size(o.largest_bytes),
            formatting.size(round(o.mean_bytes)),
            f"{o.skew:.2f}",
        )
        for o in spreads
    )
    output.table(("partitions", "largest", "mean", "skew"), rows, right=("largest", "mean", "skew"))
