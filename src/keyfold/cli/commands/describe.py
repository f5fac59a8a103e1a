"""`keyfold describe APP.py`: prints what an app declares."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from keyfold.cli.options import AppFile, Json


def command(
    app: AppFile,
    format: Annotated[str, typer.Option(metavar="text|json|mermaid", help="Output format.")] = "text",
    json: Json = False,
) -> None:
    """Print what an app declares, without starting anything.

    Example: keyfold describe shop.py --format mermaid
    """
    from keyfold.cli import output
    from keyfold.cli.app_loader import load
    from keyfold.plan.describe.as_json import to_dict

    with output.only_results():
        loaded = load(app)
        as_json = json or format == "json"
        text = "" if as_json else loaded.app.describe(cast(Any, format))
    if as_json:
        output.json_document(to_dict(loaded.app.spec()))
    else:
        print(text.rstrip("\n"))
