"""The formats in which rows are sent: which one a request asks for, and rows in it, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

from keyfold.errors import QueryError, choice
from keyfold.read import tabular
from keyfold.server.answers import JSON
from keyfold.views.contract import ViewSchema

MEDIA: Final = {
    "json": JSON,
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
"""Formats by name, and what HTTP calls them."""
_LINES: Final = 1_000
Rows = Iterator[dict[str, Any]]


def chosen(format: str | None, accept: str) -> str:
    """The format that is asked for by name, or by the Accept header."""
    if format is not None:
        return format
    wanted = [_quality(one) for one in accept.split(",")] if accept.strip() else [("*/*", 1.0)]
    for media, quality in sorted(wanted, key=lambda one: -one[1]):
        for name, own in MEDIA.items():
            if quality > 0 and media in (own, "*/*", f"{own.partition('/')[0]}/*"):
                return name
    raise QueryError(
        "no format that is accepted",
        reason="not_acceptable",
        given=f"Accept: {accept}",
        hint=choice(MEDIA.values()),
    )


def written(format: str, rows: Rows, schema: ViewSchema) -> Iterator[bytes]:
    """Rows in a format other than JSON; the rows are closed at the end, whoever ends it."""
    return _WRITERS[format](rows, schema)


def _ndjson(rows: Any, schema: ViewSchema) -> Iterator[bytes]:
    with closing(rows):
        for piece in tabular.pieces(rows, _LINES):
            yield tabular.json_lines(piece, schema)


def _csv(rows: Any, schema: ViewSchema) -> Iterator[bytes]:
    with closing(rows):
        yield tabular.csv_head(schema).encode()
        for piece in tabular.pieces(rows, _LINES):
            yield tabular.csv_text(piece).encode()


def _arrow(rows: Any, schema: ViewSchema) -> Iterator[bytes]:
    import pyarrow as pa

    sink = _Taken()
    with closing(rows), pa.ipc.new_stream(sink, tabular.arrow_schema(schema)) as writer:
        for piece in tabular.pieces(rows, tabular.PIECE):
            writer.write_batch(tabular.record_batch(piece, schema))
            yield sink.take()
    yield sink.take()


class _Taken:
    """A file whose content is taken away while it is written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(self._parts[-1])

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        """What was written since the last time."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found


_WRITERS: Final[dict[str, Callable[[Any, ViewSchema], Iterator[bytes]]]] = {
    "ndjson": _ndjson,
    "csv": _csv,
    "arrow": _arrow,
}


def _quality(given: str) -> tuple[str, float]:
    """A media type of an Accept header, and how much it is wanted."""
    media, *options = (part.strip().lower() for part in given.split(";"))
    quality = next((one[2:] for one in options if one.startswith("q=")), "1")
    try:
        return media, float(quality)
    except ValueError:
        return media, 0.0
