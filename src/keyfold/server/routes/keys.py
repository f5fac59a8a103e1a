"""`/api/apps/{app}/tables/{table}/keys/...`: the row of a key, its history, the rows of several keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.read.explain.explanation import Explanation
from keyfold.read.history import Change, Since
from keyfold.server import formats, freshness, near_keys, parameters
from keyfold.server.answers import OfTable, Row, Streamed
from keyfold.server.error_body import KeyNotFound
from keyfold.server.route import OF_TABLE, Call, Route
from keyfold.views.keys import whole_key
from keyfold.views.query.filters import is_string

MOST_KEYS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class RowDocument(OfTable):
    """The row of a key."""

    row: Row


@dataclass(frozen=True, kw_only=True)
class HistoryDocument(OfTable):
    """The changes of a key that the log still has."""

    key: Sequence[str]
    since: Since
    """From which batch on the log has all changes."""
    changes: Sequence[Change]
    """Oldest first; a delete has the columns of the key alone."""
    more: bool
    """Whether there are older ones, which a larger limit shows."""


@dataclass(frozen=True, kw_only=True)
class ExplanationDocument(OfTable):
    """Why a row has its value: a change of its key, and what the batch of the change read."""

    key: Sequence[str]
    explanation: Explanation


@dataclass(frozen=True, kw_only=True)
class RowsOfKeys(OfTable):
    """The rows of some keys, as of one moment."""

    rows: Sequence[Row | None]
    """In the order of the keys; null for a key without a row."""


def get_row(call: Call) -> RowDocument:
    """The row of a key; 404 with keys that look like it if there is none.

    The parts of a composite key follow each other, each percent-encoded: `/keys/eu/7`. The key of a windowed
    table ends with window_start and window_end, such as `/keys/eu/2026-01-01T00:00:00Z/2026-01-01T00:01:00Z`.
    """
    return RowDocument(**call.view.fields(), row=_row(call, call.key))


def _row(call: Call, key: Sequence[str]) -> dict[str, Any]:
    view = call.view
    if call.as_of is None:
        row = call.table.get(*key)
    else:
        assert view.position is not None
        (row,) = call.app.past(view.table).rows_of_keys([key], view.position.batch)
    if row is None:
        near = near_keys.near(view.app.views, call.table.schema, key)
        where, given = f"{view.app.name}.{view.table}", "/".join(key)
        hint = f"near keys: {', '.join(near)}" if near else None
        hint = "the table has no batch yet" if view.position is None else hint
        raise KeyNotFound("no row has this key", near=near, where=where, given=given, hint=hint)
    return row


def get_history(call: Call) -> HistoryDocument | RowDocument | Streamed:
    """The changes of a key that the log still has, oldest first.

    With the first parts of a key, those of all its rows, such as all windows of `/keys/eu/history`. Of a key
    whose last part is text, `history` in the place of that part is the part itself.

    Formats other than JSON have the rows after each change, with `_op`, `_batch` and `_at` of the change.
    """
    schema, (*key, last) = call.table.schema, call.key
    if last != "history" or (len(key) + 1 == len(schema.keys) and is_string(schema.keys[-1])):
        return get_row(call)
    if not key:
        raise QueryError("a history is that of a key", where=schema.table, hint="/keys/KEY/history")
    limit: int = call.values["limit"]
    found = deque(call.app.history(call.view.table, key), limit + 1)
    more = len(found) > limit
    if more:
        found.popleft()
    format = formats.chosen(call.values["format"], call.accept, formats.LISTS)
    if format != "json":
        rows = [{**one.row, "_op": one.op, "_batch": one.batch, "_at": one.at} for one in found]
        return Streamed(formats.MEDIA[format], formats.listed(format, rows))
    since = call.app.history_reaches(call.view.table)
    return HistoryDocument(**call.view.fields(), key=key, since=since, changes=list(found), more=more)


def get_explanation(call: Call) -> ExplanationDocument | RowDocument:
    """Why a row has its value: its newest change, or that of a batch, and what the batch read of each source.

    Of a stream with a log, and of a table that the table reads, these are the rows of the key, as far as the
    log still has them: `history` of the stream keeps them. Of others it is the positions: offsets of topics,
    names of files. Of a key whose last part is text, `explain` in the place of that part is the part itself.
    """
    schema, (*key, last) = call.table.schema, call.key
    if last != "explain" or (len(key) + 1 == len(schema.keys) and is_string(schema.keys[-1])):
        return get_row(call)
    if len(key) != len(schema.keys):
        parts = "/".join(column.name for column in schema.keys)
        raise QueryError(
            "an explanation is that of one row", given="/".join(key), hint=f"/keys/{parts}/explain"
        )
    found = call.app.explain(call.view.table, key, call.values["batch"])
    return ExplanationDocument(**call.view.fields(), key=key, explanation=found)


def get_rows_of_keys(call: Call) -> RowsOfKeys:
    """The rows of several keys as of one moment, in the order of the keys, null for a key without a row.

    A key is a value, an array of all parts, or an object of the parts by name.
    """
    keys = [tuple(key) if isinstance(key, list) else key for key in _keys(call.body)]
    if call.as_of is None:
        return RowsOfKeys(**call.view.fields(), rows=call.table.get_many(keys))
    view, schema = call.view, call.table.schema
    assert view.position is not None
    parts = [whole_key(schema, [key], {}) for key in keys]
    rows = call.app.past(view.table).rows_of_keys(parts, view.position.batch)
    return RowsOfKeys(**view.fields(), rows=rows)


def _keys(body: Any) -> list[Any]:
    hint = '{"keys": ["eu", ["eu", 7], {"region": "eu"}]}'
    keys = body.get("keys") if isinstance(body, Mapping) else None
    if not isinstance(keys, list) or set(body) != {"keys"}:
        raise QueryError("the body must be an object with an array named keys", hint=hint)
    if len(keys) > MOST_KEYS:
        raise QueryError(
            "too many keys", given=f"{len(keys):,}", hint=f"at most {MOST_KEYS:,} in one request"
        )
    for number, key in enumerate(keys):
        if key is None or key == [] or key == {}:
            raise QueryError(f"key {number} has no parts", given=repr(key), hint=hint)
    return keys


_PART: Final = {"type": ["string", "number", "boolean"]}
KEYS_BODY: Final = {
    "type": "object",
    "required": ["keys"],
    "additionalProperties": False,
    "properties": {
        "keys": {
            "type": "array",
            "maxItems": MOST_KEYS,
            "items": {
                "anyOf": [
                    _PART,
                    {"type": "array", "items": _PART, "minItems": 1},
                    {"type": "object", "additionalProperties": _PART, "minProperties": 1},
                ]
            },
        }
    },
}
_LIMIT: Final = parameters.integer(
    "limit", "How many changes at most: the newest ones.", least=1, most=10_000, default=1_000
)
GET_ROW: Final = Route(
    "get_row",
    f"{OF_TABLE}/keys/{{key}}",
    get_row,
    RowDocument,
    (freshness.AS_OF,),
    role="reader",
    cached=True,
)
_BATCH: Final = parameters.integer("batch", "The batch of the change; the newest one without it.", least=0)
ROUTES: Final = (
    Route(
        "get_explanation",
        f"{OF_TABLE}/keys/{{key}}/explain",
        get_explanation,
        ExplanationDocument | RowDocument,
        (_BATCH,),
        role="reader",
    ),
    Route(
        "get_history",
        f"{OF_TABLE}/keys/{{key}}/history",
        get_history,
        HistoryDocument | RowDocument,
        (_LIMIT, formats.LIST),
        role="reader",
        media=tuple(formats.LISTS.values()),
    ),
    GET_ROW,
    Route(
        "get_rows_of_keys",
        f"{OF_TABLE}/batch-get",
        get_rows_of_keys,
        RowsOfKeys,
        (freshness.AS_OF,),
        role="reader",
        method="POST",
        body=KEYS_BODY,
    ),
)
