"""What commands print: JSON documents, tables, lines about progress. Stdout is for results alone."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli.json_values import dumps, plain, word

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Rich takes 80 columns where it sees no terminal, and would fold what a program is to read.
_WIDE: Final = 10_000
# A table's widths come from all of its rows, so a long one is printed in pieces.
_PIECE: Final = 1_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def json_document(value: Any) -> None:
    """One value as the whole of stdout."""
    print(dumps(plain(value), indent=2))


def json_array(items: Iterable[Any]) -> None:
    """An array, written as its items come, one a line."""
    opening = "[\n"
    for item in items:
        sys.stdout.write(opening + dumps(plain(item)))
        opening = ",\n"
    print("[]" if opening == "[\n" else "\n]")


def cell(value: Any) -> str:
    """A value as text in one line; control characters are spelled out, since a terminal would obey them."""
    text = "null" if value is None else word(plain(value))
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def console() -> Console:
    """Stdout, in colour where it is a terminal."""
    from rich.console import Console

    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, markup=False, emoji=False, width=_WIDE if wide else None)


def terminal() -> Console:
    """Stderr, where all but results goes."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """Rows under their columns' names; `right` are the columns of numbers."""
    screen, piece = console(), _empty(columns, right)
    kept: list[Sequence[Any]] = []
    for row in rows:
        if piece.row_count == _PIECE:
            _fitting(screen, piece, columns, kept)
            piece, kept = _empty(columns, right), []
        piece.add_row(*_cells(row))
        kept.append(row)
    _fitting(screen, piece, columns, kept)


def _fitting(screen: Console, piece: Table, columns: Sequence[str], rows: list[Sequence[Any]]) -> None:
    """A table where it fits; else each row as lines, since numbers broken in two can't be read."""
    from rich.text import Text

    wanted = screen.measure(piece, options=screen.options.update(width=_WIDE)).maximum
    if not rows or wanted <= screen.width:
        screen.print(piece)
        return
    width = max(len(cell(name)) for name in columns)
    for number, row in enumerate(rows):
        if number:
            screen.print()
        for name, value in zip(columns, row, strict=True):
            line = Text(f"{cell(name):<{width}}  ", style="dim")
            screen.print(line.append(cell(value), style="not dim"), overflow="fold")


def pairs(row: Mapping[str, Any]) -> None:
    """One row, a line for each of its columns."""
    shown = _empty(("column", "value"), ())
    for name, value in row.items():
        shown.add_row(*_cells((name, value)))
    console().print(shown)


def _cells(row: Iterable[Any]) -> list[Any]:
    from rich.text import Text

    return [Text(cell(value), style="dim" if value is None else "") for value in row]


def _empty(columns: Sequence[str], right: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        # Folded, never cut: what is shown can be copied.
        made.add_column(Text(cell(name)), justify="right" if name in right else "left", overflow="fold")
    return made


def say(text: str) -> None:
    """A line about progress, on stderr."""
    print(f"keyfold: {text}", file=sys.stderr, flush=True)


@contextmanager
def warnings_said() -> Iterator[None]:
    """What the engine warns of is said as lines."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("keyfold")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def error(text: str) -> None:
    """An error's text on stderr, its first line in red where there are colours."""
    from rich.text import Text

    first, *rest = text.splitlines() or [""]
    shown = Text(first, style="bold red")
    shown.append("".join(f"\n{line}" for line in rest), style="not bold default")
    sys.stdout.flush()
    terminal().print(shown, soft_wrap=True)


@contextmanager
def only_results() -> Iterator[None]:
    """Sends what the user's code and Java print to stderr: stdout is for what a command prints afterwards."""
    out = sys.stdout
    descriptor = _descriptor(out)
    if descriptor is None:
        with redirect_stdout(sys.stderr):
            yield
        return
    out.flush()
    saved = os.dup(descriptor)
    # Below Python's own stream as well, since a JVM inherits the descriptor.
    os.dup2(2, descriptor)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


def _descriptor(stream: Any) -> int | None:
    try:
        return 1 if stream.fileno() == 1 else None
    except (AttributeError, OSError, ValueError):
        return None
