"""`keyfold pattern explain`: shows what a pattern does with each row of a file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from keyfold.cli.options import AppFile, Json

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Trace how a pattern matches rows.

    Example: keyfold pattern explain fraud.py card_testing --rows rows.json
    """


@app.command()
def explain(
    app: AppFile,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that the pattern fills.")],
    rows: Annotated[
        str, typer.Option("--rows", metavar="FILE", help="Rows as JSON: an array, or one per line.")
    ],
    stream: Annotated[
        str | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            help="The stream of the rows, if the pattern reads several.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print, row by row, which step took the row, or why none did.

    Runs the pattern on the rows of a file, without reading or writing a home.

    Example: keyfold pattern explain fraud.py card_testing --rows rows.json
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import for_workers, load
    from keyfold.cli.reports import pattern_trace

    with output.only_results():
        loaded = load(app)
        for_workers(loaded)
        found = pattern_trace.explain_rows(loaded.app.spec(), table, rows, stream)
    if json:
        output.json_array(found)
    else:
        output.table(("key", "#", "time", "row", "true for", "what it does"), map(_line, found), right=("#",))


def _line(step: dict[str, Any]) -> list[Any]:
    row = step["row"] or {}
    shown = ", ".join(f"{name} {value}" for name, value in row.items() if name not in step["key"])
    key = ", ".join(str(value) for value in step["key"].values())
    return [key, step["number"] or "", step["time"] or "later", shown, ", ".join(step["true"]), step["what"]]
