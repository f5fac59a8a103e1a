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
    from keyfold.cli.terminal import log_lines
    from keyfold.engine.storage.home_names import home_of
    from keyfold.engine.storage.layout import AppHome
    from keyfold.plan.describe.as_json import to_dict
    from keyfold.read import AppReader

    with output.only_results():
        loaded = load(app)
        as_json = json or format == "json"
        text = "" if as_json else loaded.app.describe(cast(Any, format))
    spec = loaded.app.spec()
    app_home = AppReader(AppHome(home_of(home).resolve() / spec.name))
    known = {table.name: app_home.known_since(table.name) for table in spec.tables}
    since = {
        table: {n: one.document() for n, one in found.items()} for table, found in known.items() if found
    }
    if as_json:
        output.json_document({**to_dict(spec), **({"since": since} if since else {})})
        return
    print(text.rstrip("\n"))
    for table, columns in since.items() if format == "text" else ():
        for column, found in columns.items():
            print(log_lines.known_since(f"{table}.{column}", found))
