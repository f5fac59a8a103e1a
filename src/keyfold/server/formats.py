"""The formats in which rows are sent: which one a request asks for, and rows in it, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from keyfold.errors import QueryError, choice
from keyfold.read import tabular
from keyfold.read.values import plain, utf8
from keyfold.server import parameters
from keyfold.server.answers import JSON
from keyfold.views.contract import ViewSchema

MEDIA: Final = {
    "json": JSON,
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
"""Formats by name, and what HTTP calls them."""
LISTS: Final = {name: MEDIA[name] for name in ("json", "ndjson", "csv")}
"""Those of lists whose fields have no types of their own, such as side outputs."""
LIST: Final = parameters.one_of("format", "The format; the Accept header otherwise.", tuple(LISTS))
_LINES: Final = 1_000
Rows = Iterator[dict[str, Any]]


def chosen(format: str | None, accept: str, among: Mapping[str, str] = MEDIA) -> str:
    """The format that is asked for by name, or by the Accept header."""
    if format is not None:
        return format
    wanted = [_quality(one) for one in accept.split(",")] if accept.strip() else [("*/*", 1.0)]
    for media, quality in sorted(wanted, key=lambda one: -one[1]):
        for name, own in among.items():
            if quality > 0 and media in (own, "*/*", f"{own.partition('/')[0]}/*"):
                return name
    raise QueryError(
        "no format that is accepted",
        reason="not_acceptable",
        given=f"Accept: {accept}",
        hint=choice(among.values()),
    )


def listed(format: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """A list in a format other than JSON."""
    if format == "csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        yield tabular.csv_lines([names]).encode()
        rows = [{name: row.get(name) for name in names} for row in rows]
    for piece in tabular.pieces(map(dict, rows), _LINES):
        yield tabular.csv_text(piece).encode() if format == "csv" else b"".join(map(_line, piece))


def _line(row: Mapping[str, Any]) -> bytes:
    return utf8(plain(row)) + b"\n"


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
