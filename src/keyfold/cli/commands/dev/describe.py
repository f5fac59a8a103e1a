"""`keyfold describe APP.py`: prints what an app declares."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from keyfold.cli.options import AppFile, Home, Json


def command(
    app: AppFile,
    format: Annotated[str, typer.Option(metavar="text|json|mermaid", help="Output format.")] = "text",
    home: Home = None,
    json: Json = False,
) -> None:
    """Print what an app declares, without starting anything.

    If keyfold migrate has added columns to a table in this home, also prints since when they cover rows.

    Example: keyfold describe shop.py --format mermaid
    """
    from keyfold.cli import output
    from keyfold.cli.app.loader import load
    from keyfold.cli.known_columns import columns_known_since
    from keyfold.cli.terminal import log_lines
    from keyfold.plan.describe.as_json import to_dict

    with output.only_results():
        loaded = load(app)
        as_json = json or format == "json"
        text = "" if as_json else loaded.app.describe(cast(Any, format))
    spec = loaded.app.spec()
    since = columns_known_since(spec.name, [table.name for table in spec.tables], home)
    if as_json:
        output.json_document({**to_dict(spec), **({"since": since} if since else {})})
        return
    print(text.rstrip("\n"))
    for table, columns in since.items() if format == "text" else ():
        for column, found in columns.items():
            print(log_lines.known_since(f"{table}.{column}", found))
