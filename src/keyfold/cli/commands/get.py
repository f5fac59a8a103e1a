"""`keyfold get NAME KEY...`: prints the row of one key."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from keyfold.cli.main import NoSuchKey
from keyfold.cli.options import AtLeast, Home, Json, TableName, Wait, bound

_NEGATIVE: Final = re.compile(r"-(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_MARK: Final = "\0"


class KeyCommand(TyperCommand):
    """Parses negative numbers as parts of a key, not as options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for index, word in enumerate(args):
            value_of_option = index > 0 and args[index - 1].startswith("--") and args[index - 1] != "--json"
            if _NEGATIVE.fullmatch(word) and not value_of_option:
                args[index] = _MARK + word
        return super().parse_args(ctx, args)


def command(
    name: TableName,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY...", help="The parts of the key, in the order of its columns.", show_default=False
        ),
    ] = None,
    home: Home = None,
    at_least: AtLeast = None,
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Print the row of one key.

    Example: keyfold get shop.region_totals eu
    """
    from keyfold.cli import output
    from keyfold.cli.home_reader import opened
    from keyfold.cli.known_columns import say_known_since

    parts = [part.removeprefix(_MARK) for part in key or ()]
    with opened(name, home) as (_, table):
        row = table.get(*parts, at_least=bound(at_least, wait), wait=wait)
        if row is None:
            position = table.position()
            empty = "the table has no batch yet" if position is None else None
            what = f"no row with the key {', '.join(parts)}"
            raise NoSuchKey(what, reason="not_found", where=name, hint=empty)
    if json:
        output.json_document(row)
        return
    output.pairs(row)
    say_known_since(name, home)
