"""Prints the newest rows of a side output, for `late show`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

Newest = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Show only the newest N rows. Default: all.")
]


def show(
    rows: Iterable[dict[str, Any]],
    limit: int | None,
    json: bool,
    columns: Sequence[str],
    cells: Callable[[dict[str, Any]], list[Any]],
    right: Sequence[str],
) -> None:
    """The last rows as a table or a JSON array; a note says if there are more."""
    from keyfold.cli import output

    number, kept = 0, deque[dict[str, Any]](maxlen=limit)
    for row in rows:
        number += 1
        kept.append(row)
    if json:
        output.json_array(kept)
        return
    output.table(columns, map(cells, kept), right=right)
    if len(kept) < number:
        output.say(f"the newest {len(kept):,} of {number:,} rows; omit --limit for all")
