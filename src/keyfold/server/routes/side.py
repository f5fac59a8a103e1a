"""`/api/apps/{app}/tables/{table}/side/{kind}`: rows that were not folded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.read import side_outputs
from keyfold.server import formats, parameters
from keyfold.server.answers import OfTable, Streamed
from keyfold.server.route import OF_TABLE, Call, Route

KINDS: Final = ("rejected", "late", "duplicate")


@dataclass(frozen=True)
class ReasonCount:
    """How many rows were rejected for reasons of one kind, without the rows' own values."""

    reason: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class SideRows(OfTable):
    """Rows of one kind that were not folded, as `keyfold side show KIND --json` prints them."""

    kind: str
    rows: Sequence[Mapping[str, Any]]
    """The newest ones, oldest first, with their raw text."""
    more: bool
    """Whether there are older ones, which a larger limit shows."""
    reasons: Sequence[ReasonCount] | None
    """Of rejected rows: how many by reason, also those that were counted and not kept."""
    streams: Sequence[str] | None
    """Of rejected rows: streams of the table that have rejected rows of their own."""


def list_side_rows(call: Call) -> SideRows | Streamed:
    """Rows that were not folded: rejected, late or duplicate ones, with their raw text; the newest ones.

    JSON has rejected rows with their reasons counted, the other formats have the rows alone. The log may be
    ahead of the view, of which `batch` tells.
    """
    kind, limit = call.path["kind"], call.values["limit"]
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS, choice(KINDS))
        raise QueryError(f"no side output {kind}", reason="not_found", given=kind, hint=hint)
    rows = _ROWS[kind](call)
    newest = deque(rows["found"], limit + 1)
    more = len(newest) > limit
    if more:
        newest.popleft()
    found = [row.document() for row in newest]
    format = formats.chosen(call.values["format"], call.accept, formats.LISTS)
    if format != "json":
        return Streamed(formats.MEDIA[format], formats.listed(format, found))
    return SideRows(
        **call.view.fields(),
        kind=kind,
        rows=found,
        more=more,
        reasons=rows.get("reasons"),
        streams=rows.get("streams"),
    )


def _rejected(call: Call) -> dict[str, Any]:
    found = call.app.rejections(call.view.table)
    counts = side_outputs.by_reason(found.rows) + found.not_kept
    return {
        "found": sorted(found.rows, key=lambda row: row.batch),
        "reasons": [ReasonCount(reason, rows) for reason, rows in counts.most_common()],
        "streams": found.streams,
    }


_ROWS: Final[dict[str, Callable[[Call], dict[str, Any]]]] = {
    "rejected": _rejected,
    "late": lambda call: {"found": call.app.late(call.view.table)},
    "duplicate": lambda call: {"found": call.app.duplicates(call.view.table)},
}
_LIMIT: Final = parameters.integer(
    "limit", "How many rows at most: the newest ones.", least=1, most=10_000, default=100
)
ROUTES: Final = (
    Route(
        "list_side_rows",
        f"{OF_TABLE}/side/{{kind}}",
        list_side_rows,
        SideRows,
        (_LIMIT, formats.LIST),
        role="reader",
        media=tuple(formats.LISTS.values()),
    ),
)
