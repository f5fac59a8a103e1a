"""Rejected rows, as `keyfold side` counts them by reason and shows them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli.side.kind import SideKind, Wanted

if TYPE_CHECKING:
    from keyfold.read.rejections import Rejections
    from keyfold.read.side_rows import RejectedRow

    Rows = Sequence[RejectedRow]

SAMPLES: Final = 3
"""How many rows of each reason are shown unless they are asked for."""
REASONS: Final = 20
"""How many reasons are shown."""
OF_ONE: Final = 100
"""How many rows of the reasons that were asked for are shown without a limit."""


class RejectedRows(SideKind):
    """Rows that could not be folded, of a table or of a stream: the dead letter queue."""

    name = "rejected"
    options = ("--reason",)
    replay_hint = "correct the rows where they come from, and send them again"

    def list(self, name: str, home: str | None, json: bool) -> None:
        """Prints how many rows there are by reason."""
        from keyfold.cli import output
        from keyfold.read import side_outputs

        found = _find(name, home)
        counts = side_outputs.by_reason(found.rows) + found.not_kept
        if json:
            output.json_document(_count(counts, found))
            return
        _show_counts(counts, found.rows)
        _say_streams(found)

    def show(self, name: str, wanted: Wanted, home: str | None, json: bool) -> None:
        """Prints how many rows there are by reason, and the newest of each."""
        from keyfold.cli import output
        from keyfold.read import side_outputs

        reason, limit, found = wanted.reason, wanted.limit, _find(name, home)
        rows = sorted((row for row in found.rows if _matches(row.text, reason)), key=lambda row: row.batch)
        more = Counter({kind: n for kind, n in found.not_kept.items() if _matches(kind, reason)})
        counts = side_outputs.by_reason(rows) + more
        if json:
            newest = rows if limit is None else _newest(rows, limit)
            output.json_document(_document(counts, newest, found))
            return
        if reason is not None and not counts:
            output.say(f"no row was rejected for a reason with {reason!r}; without --reason all are shown")
        _show_counts(counts, rows)
        _show_rows(rows, counts, limit if limit is not None or reason is None else OF_ONE)
        if more:
            output.say(f"{more.total():,} of these were counted, and not kept")
        _say_streams(found)


def _find(name: str, home: str | None) -> Rejections:
    from keyfold.cli.home.homes import opened_app

    with opened_app(name, home) as (app, part):
        return app.rejections(part, name)


def _matches(text: str, reason: str | None) -> bool:
    """Whether a reason has a text, both without a row's own values, in any case."""
    from keyfold.read.side_outputs import kind_of

    return reason is None or kind_of(reason).lower() in kind_of(text).lower()


def _document(counts: Counter[str], rows: Rows, found: Rejections) -> dict[str, Any]:
    counted = _count(counts, found)
    return {
        "rejected": counted["rejected"],
        "reasons": counted["reasons"],
        "rows": [row.document() for row in rows],
        "streams": found.streams,
    }


def _count(counts: Counter[str], found: Rejections) -> dict[str, Any]:
    reasons = [{"reason": kind, "rows": number} for kind, number in counts.most_common()]
    return {"rejected": counts.total(), "reasons": reasons, "streams": found.streams}


def _say_streams(found: Rejections) -> None:
    from keyfold.cli import output

    for stream in found.streams:
        output.say(f"stream {stream} also has rejected rows: keyfold side show rejected {stream}")


def _show_counts(counts: Counter[str], rows: Rows) -> None:
    """The reasons, the most frequent one first, with the newest batch that has one."""
    from keyfold.cli import formatting, output
    from keyfold.read.side_outputs import kind_of

    newest = {kind_of(row.reason): row.batch for row in rows}
    shown = counts.most_common(REASONS)
    lines = ((f"{number:,}", newest.get(kind, formatting.NONE), kind) for kind, number in shown)
    output.table(("rows", "newest batch", "reason"), lines, right=("rows", "newest batch"), wrapped="reason")
    if len(counts) > len(shown):
        output.say(f"and {len(counts) - len(shown):,} more reasons, which --json has")


def _show_rows(rows: Rows, counts: Counter[str], limit: int | None) -> None:
    """The newest rows; without a limit some of each reason, in the order of the reasons."""
    from keyfold.cli import output

    shown = _samples(rows, counts) if limit is None else _newest(rows, limit)
    if not shown:
        return
    placed = any(row.file is not None or row.topic is not None for row in rows)
    columns = ("batch", "reason", *(["place"] if placed else []), "raw")
    print()
    output.table(columns, ([_cell(row, name) for name in columns] for row in shown), right=("batch",))
    if len(shown) < len(rows) and limit is None:
        output.say(f"the newest {SAMPLES} rows of each reason; --reason TEXT or --limit N shows more")
    elif len(shown) < len(rows):
        output.say(f"the newest {len(shown):,} of {len(rows):,} rows; --limit N shows more")


def _newest(rows: Rows, limit: int) -> Rows:
    return rows[max(0, len(rows) - limit) :]


def _samples(rows: Rows, counts: Counter[str]) -> Rows:
    from keyfold.read.side_outputs import kind_of

    of_kind: dict[str, list[RejectedRow]] = {kind: [] for kind, _ in counts.most_common(REASONS)}
    for row in rows:
        of_kind.get(kind_of(row.reason), []).append(row)
    return list(chain.from_iterable(some[-SAMPLES:] for some in of_kind.values()))


def _cell(row: RejectedRow, name: str) -> Any:
    if name == "reason":
        return row.text
    return _place(row) if name == "place" else row.batch if name == "batch" else row.raw


def _place(row: RejectedRow) -> str:
    if row.topic is not None:
        return f"{row.topic}, partition {row.partition}, offset {row.offset}"
    if row.file is None:
        return ""
    where = [f"{what} {at}" for what, at in (("line", row.line), ("byte", row.byte)) if at is not None]
    here = str(Path.cwd()) + os.sep
    return ", ".join([row.file.removeprefix(here), *where])
