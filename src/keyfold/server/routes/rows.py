"""`/api/apps/{app}/tables/{table}/rows`: many rows, as pages or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.server import formats, freshness, parameters, query_filters
from keyfold.server.answers import OfTable, Row, Streamed
from keyfold.server.route import OF_TABLE, Call, Route
from keyfold.views.contract import ViewSchema
from keyfold.views.keys import narrow
from keyfold.views.query.filters import All, Filter
from keyfold.views.query.where_parser import filter_of
from keyfold.views.reader import TableReader

PAGE: Final = 100
MOST: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class RowsDocument(OfTable):
    """A page of rows."""

    rows: Sequence[Row]
    """By key, or in the given order, with values as `keyfold rows --json` prints them."""
    next: str | None
    """The cursor of the next page; null after the last one."""


def list_rows(call: Call) -> RowsDocument | Streamed:
    """The rows of a table, by key or in an order, of some keys, windows or values.

    Any other parameter is a filter: `region=eu` or, with an operator, `n.gt=5`. Operators are eq, ne, gt, ge,
    lt, le, like and null (`n.null=true`); a column that is given several times equals one of its values. A
    column named like a parameter is written with its operator: `limit.eq=5`.

    JSON comes in pages: `next` is the `cursor` of the next one. A row that does not change meanwhile is on
    exactly one page. The other formats have all rows as of one moment, or the first `limit`.

    With `as_of` they are the rows after an earlier batch. That needs a log with all changes since the table's
    first batch, of at most 200,000 changes up to that batch, which are folded again for each request.
    """
    schema, values = call.table.schema, call.values
    reading = {"where": _where(call, schema), "order_by": values["order_by"], "cursor": values["cursor"]}
    format = formats.chosen(values["format"], call.accept)
    if format == "json":
        with _table(call) as table:
            page = table.page(**reading, limit=_page_size(values["limit"]))
        return RowsDocument(**call.view.fields(), rows=page.rows, next=page.next)
    return Streamed(
        formats.MEDIA[format], _written(call, format, {**reading, "limit": values["limit"]}, schema)
    )


def _written(call: Call, format: str, reading: Mapping[str, Any], schema: ViewSchema) -> Iterator[bytes]:
    with _table(call) as table:
        yield from formats.written(format, table.scan(**reading), schema)


def _table(call: Call) -> AbstractContextManager[TableReader]:
    """The rows of the table now, or as they were."""
    if call.as_of is None:
        return nullcontext(call.table)
    assert call.view.position is not None
    return call.app.past(call.view.table).rows(call.view.position.batch)


def _page_size(limit: int | None) -> int:
    if limit is not None and limit > MOST:
        hint = "pages that follow each other by their cursor, or format=ndjson for all rows in one answer"
        raise QueryError(f"a page has at most {MOST:,} rows", given=f"limit={limit}", hint=hint)
    return limit or PAGE


def _where(call: Call, schema: ViewSchema) -> Filter:
    since, until = call.values["from"], call.values["to"]
    chosen = All((query_filters.filter_of(call.others, schema), filter_of(call.values["where"], schema)))
    return filter_of(narrow(schema, chosen, None, since, until, ("from", "to")), schema)


_TIME: Final[dict[str, Any]] = {"example": "2026-01-31T13:30:00Z", "longest": 40}
PARAMETERS: Final = (
    parameters.text("where", "A filter, such as `n > 100 and region = 'eu'`.", example="n > 1"),
    parameters.text("order_by", "The order, such as `revenue desc, region`.", example="_batch desc"),
    parameters.integer(
        "limit", f"How many rows at most; of JSON at most {MOST:,}, and {PAGE} by default.", least=1
    ),
    parameters.text("cursor", "`next` of the page before, of a read with the same filters.", longest=1 << 15),
    parameters.text("from", "Of a windowed table: windows that end after this time.", **_TIME),
    parameters.text("to", "Of a windowed table: windows that start before this time.", **_TIME),
    freshness.AS_OF,
    parameters.one_of("format", "The format; the Accept header otherwise.", tuple(formats.MEDIA)),
)
ROUTES: Final = (
    Route(
        "list_rows",
        f"{OF_TABLE}/rows",
        list_rows,
        RowsDocument,
        PARAMETERS,
        role="reader",
        media=tuple(formats.MEDIA.values()),
        filters=True,
        cached=True,
    ),
)
