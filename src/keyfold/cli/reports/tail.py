"""Prints the newest rows of a side output, for `late show`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import typer


class Documented(Protocol):
    """A row that can be printed as JSON."""

    def document(self) -> dict[str, Any]: ...


Row = TypeVar("Row", bound=Documented)
Newest = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Show only the newest N rows. Default: all.")
]


def show(
    rows: Iterable[Row],
    limit: int | None,
    json: bool,
    columns: Sequence[str],
    cells: Callable[[Row], list[Any]],
    right: Sequence[str],
) -> None:
    """The last rows as a table or a JSON array; a note says if there are more."""
    from keyfold.cli import output

    number, kept = 0, deque[Row](maxlen=limit)
    for row in rows:
        number += 1
        kept.append(row)
    if json:
        output.json_array(row.document() for row in kept)
        return
    output.table(columns, map(cells, kept), right=right)
    if len(kept) < number:
        output.say(f"the newest {len(kept):,} of {number:,} rows; omit --limit for all")
