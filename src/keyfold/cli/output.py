"""Prints results on stdout, as JSON or tables, and progress and errors on stderr."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Final

from keyfold.read.values import dumps, plain, word

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Without a terminal Rich assumes 80 columns, and would wrap what a program reads.
_WIDE: Final = 10_000
# The widths depend on all rows, so a long table is printed in pieces.
_PIECE: Final = 1_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def json_document(value: Any) -> None:
    """Prints one JSON document, the whole of stdout."""
    print(dumps(plain(value), indent=2))


def json_array(items: Iterable[Any]) -> None:
    """Prints a JSON array while its items arrive, one per line."""
    opening = "[\n"
    for item in items:
        sys.stdout.write(opening + dumps(plain(item)))
        opening = ",\n"
    print("[]" if opening == "[\n" else "\n]")


def cell(value: Any) -> str:
    """A value as one line of text; control characters are escaped, since a terminal would obey them."""
    text = "null" if value is None else word(plain(value))
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def console() -> Console:
    """Stdout, in colour on a terminal."""
    from rich.console import Console

    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, markup=False, emoji=False, width=_WIDE if wide else None)


def terminal() -> Console:
    """Stderr, for everything but results."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    right: Sequence[str] = (),
    wrapped: str | None = None,
) -> None:
    """Prints rows as a table; `right` are the right-aligned columns, `wrapped` one of sentences."""
    screen, piece = console(), _empty(columns, right)
    kept: list[Sequence[Any]] = []
    for row in rows:
        if piece.row_count == _PIECE:
            _fitting(screen, piece, columns, kept, wrapped)
            piece, kept = _empty(columns, right), []
        piece.add_row(*_cells(row))
        kept.append(row)
    _fitting(screen, piece, columns, kept, wrapped)


def _fitting(
    screen: Console, piece: Table, columns: Sequence[str], rows: list[Sequence[Any]], wrapped: str | None
) -> None:
    """A table if it fits, or sentences can be wrapped, else a line per value: numbers are not wrapped."""
    from rich.text import Text

    wanted = screen.measure(piece, options=screen.options.update(width=_WIDE)).maximum
    for name, column in zip(columns, piece.columns, strict=True):
        column.no_wrap = wrapped is not None and name != wrapped
    if not rows or wrapped is not None or wanted <= screen.width:
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
    """Prints one row, a line per column."""
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
        # Wrapped, never cut, so that values can be copied.
        made.add_column(Text(cell(name)), justify="right" if name in right else "left", overflow="fold")
    return made


def say(text: str) -> None:
    """Prints a line of progress on stderr."""
    print(f"keyfold: {text}", file=sys.stderr, flush=True)


@contextmanager
def warnings_said() -> Iterator[None]:
    """Prints the engine's warnings as lines of progress."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("keyfold")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def error(text: str) -> None:
    """Prints an error on stderr, its first line in red if there are colours."""
    from rich.text import Text

    first, *rest = text.splitlines() or [""]
    shown = Text(first, style="bold red")
    shown.append("".join(f"\n{line}" for line in rest), style="not bold default")
    sys.stdout.flush()
    terminal().print(shown, soft_wrap=True)


@contextmanager
def only_results() -> Iterator[None]:
    """Redirects what the user's code and Java print to stderr; stdout is for the command's result."""
    out = sys.stdout
    descriptor = _descriptor(out)
    if descriptor is None:
        with redirect_stdout(sys.stderr):
            yield
        return
    out.flush()
    saved = os.dup(descriptor)
    # The file descriptor as well, since a JVM inherits it.
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
