"""Rows on their way out: from what the server sends to Python values, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from keyfold.views.postgresql.codec import codec_of
from keyfold.views.postgresql.sql import Selection
from keyfold.views.schema import Column

if TYPE_CHECKING:
    import psycopg

_AT_ONCE: Final = 5_000
# Fewer rows need no cursor on the server.
_FEW: Final = 5_000
Row = dict[str, Any]


@contextmanager
def fetched(
    connection: psycopg.Connection[Any],
    selection: Selection,
    keys: tuple[Column, ...],
    limit: int | None = None,
) -> Iterator[Iterator[Row]]:
    """The rows of a statement, which has run by now; they are fetched as they are needed."""
    decode = decoder(selection.columns, keys)
    if limit is not None and limit <= _FEW:
        found = connection.execute(selection.sql, selection.params, binary=True).fetchall()
        yield map(decode, found)
        return
    with connection.cursor(name="keyfold") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(selection.sql, selection.params, binary=True)
        yield map(decode, cursor)


@functools.lru_cache(maxsize=256)
def decoder(columns: tuple[Column, ...], keys: tuple[Column, ...]) -> Callable[[Any], Row]:
    """A function from what was read to a row; `keys`: those of the view."""
    names = [column.name for column in columns]
    codecs = ((column.name, codec_of(column.type, column in keys)) for column in columns)
    others = [(name, codec.decode) for name, codec in codecs if codec.decode is not None]

    def decode(values: Any) -> Row:
        row = dict(zip(names, values, strict=True))
        for name, convert in others:
            if row[name] is not None:
                row[name] = convert(row[name])
        return row

    return decode
